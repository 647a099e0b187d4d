//! The file system in memory.
//!
//! Given: its clients, and a connection to the keeper of what files hold. `keeper` as an argument makes it that keeper.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
fn main() {
    use files::keeper::{self, Keeper};
    use files::memory::{Budget, Tree};
    use files::serving::Service;

    /// What names and nodes may take of this process' memory.
    const NAMES: u64 = 64 << 20;
    /// And those that one program made.
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
