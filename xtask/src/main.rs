//! The host side: the Rust part of `./hafnon`.
//!
//! It installs what is missing ([`setup`]), builds the parts in order ([`build`]), puts programs and libraries into an
//! image ([`image`]), starts QEMU ([`qemu`]) and transfers input, output and exit code between the program in the
//! system and its caller ([`session`], over the frames of [`link`]). `cargo` and `test` do the same many times.
#![forbid(unsafe_code)]

mod batch;
mod bench;
mod build;
mod c;
mod cargo;
mod cargo_command;
mod cli;
mod conformance;
mod disk;
mod docs;
mod ecosystem;
mod elf;
mod families;
mod fetch;
mod files;
mod fuzz;
mod gdb;
mod host;
mod image;
mod install;
mod kernel;
mod kernel_patches;
mod line;
mod link;
mod lock;
mod mutations;
mod paths;
mod qemu;
mod run;
mod rust_tests;
mod session;
mod setup;
mod stalls;
mod symbols;
mod system;
mod terminal;
mod test;
mod threads;
mod trace;
mod trusted_base;
mod ui;
mod unwinder;
mod without;
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
