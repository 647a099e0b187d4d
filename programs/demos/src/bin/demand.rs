//! A VMO larger than the machine's memory: only touched pages are committed, and decommitted pages are free again.
#![forbid(unsafe_code)]

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("demand: memory objects are on Hafnon only");
    std::process::exit(2);
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    match here::run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("demand: {problem}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "fuchsia")]
mod here {
    use zx::Vmo;

    const PAGE: usize = 4096;
    /// One page in every `STRIDE` bytes is touched.
    const STRIDE: usize = 16 << 20;

    pub fn run() -> Result<(), String> {
        let physical = zx::system_get_physmem();
        let size = (physical * 2).next_multiple_of(STRIDE as u64) as usize;
        let vmo = Vmo::create(size as u64, 0).map_err(|status| format!("no memory object: {status}"))?;
        let vmar = zx::startup::vmar_root_self();
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let mapping = vmar.map_here(options, &vmo, 0, size).map_err(|status| format!("no mapping: {status}"))?;
        println!(
            "an object of {} MiB on a machine with {} MiB; committed: {} KiB",
            size >> 20,
            physical >> 20,
            committed(&vmo)?
        );
        let pages: Vec<usize> = (0..size).step_by(STRIDE).collect();
        for offset in &pages {
            mapping.write(*offset, &offset.to_le_bytes()).map_err(|status| format!("write: {status}"))?;
        }
        for offset in &pages {
            let mut bytes = [0; 8];
            mapping.read(*offset, &mut bytes).map_err(|status| format!("read: {status}"))?;
            if usize::from_le_bytes(bytes) != *offset {
                return Err(format!("at {offset:#x} stands {bytes:?}"));
            }
        }
        let after = committed(&vmo)?;
        println!("{} pages touched; committed: {after} KiB", pages.len());
        vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, size as u64).map_err(|status| format!("giving back: {status}"))?;
        println!("all given back; committed: {} KiB", committed(&vmo)?);
        let expected = (pages.len() * PAGE) as u64 >> 10;
        if after == expected { Ok(()) } else { Err(format!("{expected} KiB should have been committed")) }
    }

    fn committed(vmo: &Vmo) -> Result<u64, String> {
        let info = vmo.info().map_err(|status| format!("no information: {status}"))?;
        Ok(info.committed_bytes >> 10)
    }
}
