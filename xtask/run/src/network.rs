//! The option `--net`.

use std::env;

use xtask_build::devices::Model;

/// The machine's network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Net {
    /// There is none.
    None,
    /// A card.
    Card {
        /// What is behind it, in QEMU's words.
        netdev: String,
        /// Which card it is.
        model: Model,
    },
}

/// Parses the value of `--net`.
///
/// # Errors
/// It is of no known kind, or no driver is for the card.
pub fn parse(text: &str) -> Result<Net, String> {
    let mut options = options(text);
    let kind = options.remove(0);
    let model = take_model(&mut options)?;
    let (kind, value) = kind.split_once('=').map_or((kind.as_str(), None), |(kind, value)| (kind, Some(value)));
    if options.iter().any(|option| option.starts_with("id=")) {
        return Err("the card has its own `id`; leave this one out".into());
    }
    let rest: String = options.iter().map(|option| format!(",{option}")).collect();
    let netdev = match (kind, value) {
        ("none", None) if rest.is_empty() && model.is_none() => return Ok(Net::None),
        ("user", None) => format!("user{rest}"),
        ("tap", None) => format!("tap{rest}"),
        ("tap", Some(name)) => format!("tap,ifname={name},script=no,downscript=no{rest}"),
        ("stream", None) => format!("stream{rest}"),
        ("stream", Some(path)) => {
            // QEMU runs in a folder of its own.
            let folder = env::current_dir().map_err(|error| error.to_string())?;
            let path = folder.join(path.replace(",,", ",")).display().to_string().replace(',', ",,");
            format!("stream,addr.type=unix,addr.path={path}{rest}")
        }
        _ => {
            return Err(
                "it is `user`, `tap=NAME`, `stream=SOCKET` or `none`, and after a comma `model=MODEL` or options \
                        of QEMU's for it"
                    .into(),
            );
        }
    };
    Ok(Net::Card { netdev, model: model.unwrap_or_default() })
}

/// Splits a text at its commas. Two of them are QEMU's way to write a comma in a value, and stay.
fn options(text: &str) -> Vec<String> {
    let mut options = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        let is_double = next == ',' && rest.next_if_eq(&',').is_some();
        match options.last_mut() {
            Some(last) if is_double => last.push_str(",,"),
            Some(last) if next != ',' => last.push(next),
            _ => options.push(String::new()),
        }
    }
    options
}

/// Takes the card's model out of the options.
fn take_model(options: &mut Vec<String>) -> Result<Option<Model>, String> {
    let mut model = None;
    for name in options.extract_if(.., |option| option.starts_with("model=")) {
        let name = &name["model=".len()..];
        let known = Model::ALL.into_iter().find(|model| model.name() == name);
        let known = known.ok_or_else(|| {
            let all: Vec<String> = Model::ALL.iter().map(|model| format!("`{}`", model.name())).collect();
            format!("`{name}` is no network card that has a driver here; there are {}", all.join(" and "))
        })?;
        if model.replace(known).is_some() {
            return Err("it has two models; a machine has one network card".into());
        }
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::{Model, Net, parse};

    #[test]
    fn kinds() {
        let netdev = |text: &str| match parse(text) {
            Ok(Net::Card { netdev, model: Model::VirtioNetPci }) => netdev,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(parse("none"), Ok(Net::None));
        assert_eq!(netdev("user"), "user");
        assert_eq!(netdev("user,hostfwd=tcp:127.0.0.1:8080-:80"), "user,hostfwd=tcp:127.0.0.1:8080-:80");
        assert_eq!(netdev("tap=tap0"), "tap,ifname=tap0,script=no,downscript=no");
        assert_eq!(netdev("stream=/a,b"), "stream,addr.type=unix,addr.path=/a,b");
        assert_eq!(netdev("stream=/a,,b,server=on"), "stream,addr.type=unix,addr.path=/a,,b,server=on");
        assert_eq!(netdev("stream=/a/b,server=on"), "stream,addr.type=unix,addr.path=/a/b,server=on");
        assert_eq!(netdev("user,bootfile=a,,model=e1000e,,,x=y"), "user,bootfile=a,,model=e1000e,,,x=y");
        for wrong in ["", "lan", "user=3", "none,x=y", "user,id=card", "tap=t,id=a", "none,model=e1000e"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn models() {
        let card = |netdev: &str, model| Ok(Net::Card { netdev: netdev.into(), model });
        assert_eq!(parse("user,model=e1000e"), card("user", Model::E1000e));
        assert_eq!(parse("user,model=virtio-net-pci"), card("user", Model::VirtioNetPci));
        let forward = "hostfwd=tcp::80-:80";
        for text in [format!("user,model=e1000e,{forward}"), format!("user,{forward},model=e1000e")] {
            assert_eq!(parse(&text), card(&format!("user,{forward}"), Model::E1000e));
        }
        let error = |text: &str| parse(text).unwrap_err();
        let unknown = "`rtl8139` is no network card that has a driver here; there are `virtio-net-pci` and `e1000e`";
        assert_eq!(error("user,model=rtl8139"), unknown);
        assert!(error("user,model=").contains("no network card"));
        assert!(error("user,model=e1000e,model=e1000e").contains("two models"));
    }
}
