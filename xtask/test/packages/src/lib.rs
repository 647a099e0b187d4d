//! Empty: this package exists so that cargo fetches the packages that `Cargo.toml` names.
#![forbid(unsafe_code)]
