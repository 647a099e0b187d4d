//! Tampering: threads that enter the kernel as no ordinary program does. They write where the vDSO should, send what it
//! never sends, receive where they should not, and forge faults.
//!
//! At the end of each case the attacker's process is killed, or continues as if nothing had happened, and a neighbour
//! has noticed nothing. The case `leak.tamper` checks that everything has come back.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod buffer;
#[cfg(target_os = "fuchsia")]
mod entries;
#[cfg(target_os = "fuchsia")]
mod faults;
#[cfg(target_os = "fuchsia")]
mod instructions;
#[cfg(target_os = "fuchsia")]
mod link;
#[cfg(target_os = "fuchsia")]
mod registers;
#[cfg(target_os = "fuchsia")]
mod state;
#[cfg(target_os = "fuchsia")]
mod vectors;

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    use conformance::Program;
    let child = |arguments: &[String]| match arguments {
        [name] if name == hostile::neighbour::NAME => hostile::neighbour::work(false),
        [name, rounds] if name == state::SERVICES => state::beside_services(rounds),
        _ => std::process::ExitCode::from(2),
    };
    let cases = || {
        let parts = [
            buffer::cases,
            entries::cases,
            faults::cases,
            instructions::cases,
            link::cases,
            registers::cases,
            state::cases,
            vectors::cases,
        ];
        let mut all: Vec<_> = parts.into_iter().flat_map(|cases| cases()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    };
    Program { name: "tamper", cases, known: &[], child }.main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("tamper: there is nothing to attack here");
}

/// A case: an attack beside a neighbour, which must continue to work afterwards.
#[cfg(target_os = "fuchsia")]
fn case(
    name: &str,
    attack: fn(&mut hostile::neighbour::Neighbour) -> conformance::check::Outcome,
) -> conformance::check::Case {
    conformance::check::Case::new(name, move || {
        let mut neighbour = hostile::neighbour::Neighbour::start()?;
        neighbour.goes_on()?;
        let attacked = attack(&mut neighbour);
        neighbour.goes_on()?;
        attacked
    })
}
