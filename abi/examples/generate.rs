//! Writes what is generated from the definitions, and checks the vDSO's image.
//!
//! ```text
//! cargo run -p abi --example generate -- headers DIR     DIR/zircon/{types,syscalls}.h
//! cargo run -p abi --example generate -- check-vdso FILE
//! ```
#![forbid(unsafe_code)]

use std::path::Path;
use std::{env, fs};

use abi_gen::header::{self, Structure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls = abi_gen::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("syscalls"))?;
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["headers", dir] => {
            let dir = Path::new(dir).join("zircon");
            fs::create_dir_all(&dir)?;
            let constants = abi::CONSTANTS.iter().copied().flatten().map(|c| (c.name, c.ty, c.value));
            let statuses = abi::STATUSES.iter().map(|(name, status)| (*name, "zx_status_t", i128::from(status.0)));
            let rights =
                abi::Rights::NAMED.iter().map(|(name, rights)| (*name, "zx_rights_t", i128::from(rights.bits())));
            let structs: Vec<Structure<'_>> = abi::STRUCTS
                .iter()
                .copied()
                .flatten()
                .map(|s| Structure {
                    name: s.name,
                    doc: s.doc,
                    size: s.size,
                    fields: s.fields.iter().map(|f| (f.name, f.ty)).collect(),
                })
                .collect();
            fs::write(dir.join("types.h"), header::types(constants.chain(statuses).chain(rights), &structs))?;
            fs::write(dir.join("syscalls.h"), header::syscalls(&calls))?;
        }
        ["check-vdso", file] => {
            abi_gen::image::check(&fs::read(file)?, &calls, abi::VDSO_CODE_START as u64)?;
            println!("{file} is as it has to be");
        }
        _ => return Err("usage: generate headers DIR | check-vdso FILE".into()),
    }
    Ok(())
}
