//! The file service for files in memory.
//!
//! At its start it gets the channel of its clients and a connection to the keeper, which creates the VMOs of file
//! contents. With the argument `keeper`, this program is the keeper.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
fn main() {
    use files::keeper::{self, Keeper};
    use files::memory::{Budget, Tree};
    use files::serving::Service;

    /// Maximum memory of this process for names and nodes, in bytes.
    const NAMES: u64 = 64 << 20;
    /// The same for names and nodes that one program created.
    const NAMES_OF_PROGRAM: u64 = 32 << 20;

    let served = if std::env::args().nth(1).as_deref() == Some("keeper") {
        keeper::run()
    } else {
        let serve = || {
            let clients = service::Clients::take()?;
            let keeper = service::uses(0).map_err(|status| format!("no keeper: {status}"))?;
            let (keeper, budget) = (Keeper::new(keeper), Budget::new(NAMES, NAMES_OF_PROGRAM));
            let mut service = Service::new(move || Some(Tree::new(keeper.clone(), budget.clone())))
                .map_err(|status| format!("a port: {status}"))?;
            service.run(&clients).map_err(|status| format!("its port: {status}"))
        };
        serve()
    };
    if let Err(problem) = served {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("memory-files: this file system runs on Hafnon");
    std::process::exit(2);
}
