//! The host side: the Rust part of `./hafnon`.
//!
//! It installs what is missing ([`setup`]), builds the parts in order ([`build`]), puts programs and libraries into an
//! image ([`image`]), starts QEMU ([`qemu`]) and transfers input, output and exit code between the program in the
//! system and its caller ([`session`], over the frames of [`link`]). `cargo` and `test` do the same many times.
#![forbid(unsafe_code)]

#[path = "../run/src/batch/mod.rs"]
mod batch;
#[path = "../bench/src/lib.rs"]
mod bench;
#[path = "../build/src/lib.rs"]
mod build;
#[path = "../build/src/c/mod.rs"]
mod c;
#[path = "../build/src/cargo.rs"]
mod cargo;
#[path = "../run/src/cargo_command.rs"]
mod cargo_command;
mod cli;
#[path = "../conformance/src/lib.rs"]
mod conformance;
#[path = "../run/src/disk/mod.rs"]
mod disk;
#[path = "../docs/src/lib.rs"]
mod docs;
#[path = "../test/src/ecosystem/mod.rs"]
mod ecosystem;
#[path = "../build/src/elf.rs"]
mod elf;
#[path = "../docs/src/families.rs"]
mod families;
#[path = "../common/src/fetch.rs"]
mod fetch;
#[path = "../common/src/files.rs"]
mod files;
#[path = "../test/src/fuzz.rs"]
mod fuzz;
#[path = "../run/src/gdb/mod.rs"]
mod gdb;
#[path = "../test/src/host/mod.rs"]
mod host;
#[path = "../build/src/image.rs"]
mod image;
#[path = "../run/src/install.rs"]
mod install;
#[path = "../build/src/kernel.rs"]
mod kernel;
#[path = "../docs/src/kernel_patches.rs"]
mod kernel_patches;
#[path = "../run/src/line.rs"]
mod line;
#[path = "../run/src/link.rs"]
mod link;
#[path = "../common/src/lock.rs"]
mod lock;
#[path = "../test/src/mutations/mod.rs"]
mod mutations;
#[path = "../common/src/paths.rs"]
mod paths;
#[path = "../run/src/qemu.rs"]
mod qemu;
#[path = "../run/src/lib.rs"]
mod run;
#[path = "../test/src/rust_tests/mod.rs"]
mod rust_tests;
#[path = "../run/src/session/mod.rs"]
mod session;
#[path = "../build/src/setup.rs"]
mod setup;
#[path = "../run/src/symbols/mod.rs"]
mod symbols;
#[path = "../build/src/system/mod.rs"]
mod system;
#[path = "../run/src/terminal.rs"]
mod terminal;
#[path = "../test/src/lib.rs"]
mod test;
#[path = "../common/src/threads.rs"]
mod threads;
#[path = "../run/src/trace/mod.rs"]
mod trace;
#[path = "../docs/src/trusted_base.rs"]
mod trusted_base;
#[path = "../common/src/ui.rs"]
mod ui;
#[path = "../build/src/unwinder.rs"]
mod unwinder;
#[path = "../conformance/src/without.rs"]
mod without;
#[path = "../common/src/words.rs"]
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::cli::{Cli, Command};
use crate::elf::Refusal;
use crate::paths::Paths;
use crate::ui::Ui;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match threads::main(|| dispatch(&cli)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            words::say(&format!("hafnon: {error:#}"));
            ExitCode::from(match error.downcast_ref::<Refusal>() {
                Some(Refusal::Missing(_)) => 127,
                Some(Refusal::NoProgram(_)) => 126,
                None => 125,
            })
        }
    }
}

fn dispatch(cli: &Cli) -> Result<u8> {
    let paths = Paths::find()?;
    match &cli.command {
        Command::Run(args) => run::run(&paths, args),
        Command::Build { debug, verbose } => {
            let ui = Ui::new(*verbose);
            build::build(&paths, &ui, build::What { debug: *debug, ..build::What::default() })?;
            Ok(0)
        }
        Command::Cargo(args) => cargo_command::cargo(&paths, args),
        Command::Install { args } => install::install(&paths, args),
        Command::Uninstall { args } => install::uninstall(&paths, args),
        Command::Cc { args } => c::front::cc(&paths, args),
        Command::Runner { program, args } => cargo_command::runner(&paths, program.clone(), args.clone()),
        Command::Bench(args) => bench::bench(&paths, args),
        Command::Disk { what } => disk::disk(what),
        Command::Doctor => Ok(u8::from(setup::doctor() > 0)),
        Command::Fuzz(args) => fuzz::fuzz(&paths, args),
        Command::Coverage(args) if args.lines => host::lines::lines(&paths).map(|()| 0),
        Command::Coverage(args) => Ok(u8::from(!conformance::coverage::coverage(&paths, args)?)),
        Command::FuzzHost(args) => host::fuzz::fuzz(&paths, args),
        Command::Miri(args) => host::miri::miri(&paths, args),
        Command::TrustedBase => trusted_base::trusted_base(&paths),
        Command::Docs { folder } => docs::docs(&paths, folder.as_deref()).map(|()| 0),
        Command::Test(args) => Ok(u8::from(!test::test(&paths, args)?)),
    }
}
