//! The sources of `rsext4` with the patches in `patches/`.
#![forbid(unsafe_code)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    xtask_patch::copy_crate("rsext4-0.9.2")
}
