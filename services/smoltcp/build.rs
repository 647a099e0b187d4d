//! The sources of `smoltcp` with the patches in `patches/`, and its limits.
#![forbid(unsafe_code)]

use std::path::Path;
use std::{env, fs};

/// Writes `smoltcp`'s limits where its sources expect them.
macro_rules! limits {
    ($($name:ident)*) => { [$((stringify!($name), smoltcp::config::$name)),*] };
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    xtask_patch::copy_crate("smoltcp-0.14.0")?;
    let limits = limits! {
        ASSEMBLER_MAX_SEGMENT_COUNT DNS_MAX_NAME_SIZE DNS_MAX_RESULT_COUNT DNS_MAX_SERVER_COUNT FRAGMENTATION_BUFFER_SIZE
        IFACE_MAX_ADDR_COUNT IFACE_MAX_MULTICAST_GROUP_COUNT IFACE_MAX_PREFIX_COUNT IFACE_MAX_ROUTE_COUNT
        IFACE_MAX_SIXLOWPAN_ADDRESS_CONTEXT_COUNT IFACE_NEIGHBOR_CACHE_COUNT IPV6_HBH_MAX_OPTIONS
        REASSEMBLY_BUFFER_COUNT REASSEMBLY_BUFFER_SIZE RPL_PARENTS_BUFFER_COUNT RPL_RELATIONS_BUFFER_COUNT
    };
    let text = limits.map(|(name, limit)| format!("pub const {name}: usize = {limit};\n")).concat();
    fs::write(Path::new(&env::var("OUT_DIR")?).join("config.rs"), text)?;
    Ok(())
}
