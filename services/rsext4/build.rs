//! The sources of `rsext4` with the patches in `patches/`.
#![forbid(unsafe_code)]

fn main() -> patched::Result<()> {
    patched::copy("rsext4-0.9.2")
}
