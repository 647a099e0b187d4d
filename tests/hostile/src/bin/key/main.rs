//! The attack on a key: a native component has a key in its memory, and a program with every right that a program can
//! have searches for it everywhere (`docs/native.md`).
//!
//! The component is the key store of `examples`, built so that this program knows its key, and so that its memory is
//! full of copies of the key. Nothing that can be read may contain a piece of the key. Two checks show that the search
//! works: the store must sign with the key that is searched for, and each way of searching must find a planted copy.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod machine;
#[cfg(target_os = "fuchsia")]
mod memory;
#[cfg(target_os = "fuchsia")]
mod messages;
#[cfg(target_os = "fuchsia")]
mod needle;
#[cfg(target_os = "fuchsia")]
mod store;

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    use conformance::Program;
    let child = |_: &[String]| std::process::ExitCode::from(2);
    let cases = || {
        let all = [machine::cases(), memory::cases(), messages::cases()];
        let mut all: Vec<_> = all.into_iter().flatten().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    };
    Program { name: "key", cases, known: &[], child }.main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("key: there is nothing to attack here");
}

/// An attack: the store must have the key before it, and the same key afterwards.
#[cfg(target_os = "fuchsia")]
fn case(
    name: &str,
    attack: fn(&store::Store, &needle::Needle) -> conformance::check::Outcome,
) -> conformance::check::Case {
    use conformance::check::equal;
    conformance::check::Case::new(name, move || {
        let store = store::Store::find()?;
        let needle = needle::Needle::of(&store.key());
        attack(&store, &needle)?;
        equal(store::Store::find()?.life, store.life)
    })
}
