//! The host side: the Rust part of `./hafnon`.
//!
//! This crate is the command line; each tool is a crate of its own, in the folder of its name. A tool uses only those
//! above it:
//!
//! | crate | holds |
//! |---|---|
//! | `common` | folders of the tree, messages, the build lock, threads, downloads, patches |
//! | `build` | set-up, the kernel, the parts of the system in order, the C library and compiler, the image |
//! | `run` | QEMU and its lines, `run`, `cargo`, `install`, `disk`; backtraces, traces, gdb |
//! | `conformance` | runs the conformance cases, keeps their results, counts them |
//! | `bench` | measures, and draws what it measured |
//! | `docs` | the generated pages |
//! | `test` | every test; the suites of Rust and of packages, mutations, fuzzing, Miri |
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::cli::{Cli, Command, RumpCommand};
use xtask_build::elf::ProgramError;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match xtask_common::threads::main(|| dispatch(&cli)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            xtask_common::words::say(&format!("hafnon: {error:#}"));
            ExitCode::from(match error.downcast_ref::<ProgramError>() {
                Some(ProgramError::Missing(_)) => 127,
                Some(ProgramError::NoProgram(_)) => 126,
                None => 125,
            })
        }
    }
}

fn dispatch(cli: &Cli) -> Result<u8> {
    let paths = Paths::find()?;
    match &cli.command {
        Command::Run(args) => xtask_run::run(&paths, args),
        Command::Build { debug, verbose } => {
            let ui = Ui::new(*verbose);
            xtask_build::build(
                &paths,
                &ui,
                xtask_build::BuildOptions { debug: *debug, ..xtask_build::BuildOptions::default() },
            )?;
            Ok(0)
        }
        Command::Cargo(args) => xtask_run::cargo_command::cargo(&paths, args),
        Command::Install { args } => xtask_run::install::install(&paths, args),
        Command::Uninstall { args } => xtask_run::install::uninstall(&paths, args),
        Command::Cc { args } => xtask_build::c::front::cc(&paths, args),
        Command::Rump { what: RumpCommand::Check { prefix } } => xtask_build::rump::check(&paths, prefix),
        Command::Rump { what: RumpCommand::Cc { prefix, components, args } } => {
            xtask_build::rump::link::cc(&paths, prefix.as_deref(), components, args)
        }
        Command::Runner { program, args } => xtask_run::cargo_command::runner(&paths, program.clone(), args.clone()),
        Command::Rustc { args } => xtask_run::compiler::compile(&paths, args),
        Command::Bench(args) => {
            let code = xtask_bench::bench(&paths, args)?;
            // The page and the drawings show the accepted figures.
            if args.accept {
                xtask_docs::write_pages(&paths, &Ui::new(false))?;
            }
            Ok(code)
        }
        Command::Linux(args) => xtask_run::linux::linux(&paths, args),
        Command::Disk { what } => xtask_run::disk::disk(what),
        Command::Doctor => {
            let missing = xtask_build::setup::doctor();
            println!("-        {:<24} {}", "/dev/kvm", xtask_run::accel::state(&paths));
            Ok(u8::from(missing > 0))
        }
        Command::Fuzz(args) => xtask_test::fuzz::fuzz(&paths, args),
        Command::Coverage(args) if args.lines => xtask_test::host::lines::lines(&paths).map(|()| 0),
        Command::Coverage(args) => Ok(u8::from(!xtask_conformance::coverage::coverage(&paths, args)?)),
        Command::FuzzHost(args) => xtask_test::host::fuzz::fuzz(&paths, args),
        Command::Miri(args) => xtask_test::host::miri::miri(&paths, args),
        Command::TrustedBase => xtask_docs::trusted_base::trusted_base(&paths),
        Command::Docs { folder } => xtask_docs::docs(&paths, folder.as_deref()).map(|()| 0),
        Command::Test(args) => Ok(u8::from(!xtask_test::test(&paths, args)?)),
    }
}
