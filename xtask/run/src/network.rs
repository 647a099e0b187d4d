//! The option `--net`.

use std::env;

/// What is behind the network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Net {
    /// No card.
    None,
    /// A network, in QEMU's words.
    Netdev(String),
}

/// Parses the value of `--net`.
///
/// # Errors
/// It is of no known kind.
pub fn parse(text: &str) -> Result<Net, String> {
    let (kind, rest) = text.split_once(',').map_or((text, ""), |(kind, rest)| (kind, rest));
    let (kind, value) = kind.split_once('=').map_or((kind, None), |(kind, value)| (kind, Some(value)));
    let rest = if rest.is_empty() { String::new() } else { format!(",{rest}") };
    if rest.split(',').any(|option| option.starts_with("id=")) {
        return Err("the card has its own `id`; leave this one out".into());
    }
    match (kind, value) {
        ("none", None) if rest.is_empty() => Ok(Net::None),
        ("user", None) => Ok(Net::Netdev(format!("user{rest}"))),
        ("tap", None) => Ok(Net::Netdev(format!("tap{rest}"))),
        ("tap", Some(name)) => Ok(Net::Netdev(format!("tap,ifname={name},script=no,downscript=no{rest}"))),
        ("stream", None) => Ok(Net::Netdev(format!("stream{rest}"))),
        ("stream", Some(path)) => {
            // QEMU runs in a folder of its own.
            let folder = env::current_dir().map_err(|error| error.to_string())?;
            let path = folder.join(path).display().to_string().replace(',', ",,");
            Ok(Net::Netdev(format!("stream,addr.type=unix,addr.path={path}{rest}")))
        }
        _ => {
            Err("it is `user`, `tap=NAME`, `stream=SOCKET` or `none`, and after a comma options of QEMU's for it"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Net, parse};

    #[test]
    fn kinds() {
        let netdev = |text: &str| match parse(text) {
            Ok(Net::Netdev(words)) => words,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(parse("none"), Ok(Net::None));
        assert_eq!(netdev("user"), "user");
        assert_eq!(netdev("user,hostfwd=tcp:127.0.0.1:8080-:80"), "user,hostfwd=tcp:127.0.0.1:8080-:80");
        assert_eq!(netdev("tap=tap0"), "tap,ifname=tap0,script=no,downscript=no");
        assert_eq!(netdev("stream=/a,b"), "stream,addr.type=unix,addr.path=/a,b");
        assert_eq!(netdev("stream=/a/b,server=on"), "stream,addr.type=unix,addr.path=/a/b,server=on");
        for wrong in ["", "lan", "user=3", "none,x=y", "user,id=card", "tap=t,id=a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
