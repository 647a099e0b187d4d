//! Initial inputs, made by our own code: `seeds FOLDER` writes them into a folder for each target.

use std::error::Error;
use std::fs;
use std::path::Path;

use description::services;
use processargs::{Builder, HandleInfo};

type Seeds = Vec<(&'static str, Vec<u8>)>;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("seeds: which folder?")?;
    let targets: [(&str, Seeds); 6] = [
        ("bootfs", bootfs()?),
        ("calls", calls()),
        ("description", descriptions()?),
        ("elf", vec![("smallest", elf())]),
        ("network", frames()),
        ("processargs", processargs()?),
    ];
    for (target, seeds) in targets {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in seeds {
            fs::write(folder.join(format!("seed-{name}")), bytes)?;
        }
    }
    Ok(())
}

fn bootfs() -> Result<Seeds, Box<dyn Error>> {
    let mut writer = bootfs::Writer::new();
    let empty = writer.to_bytes()?;
    writer.add("bin/a", vec![1; 5000])?.add("bin/b", Vec::new())?.add("lib/c.so", b"text".to_vec())?;
    writer.add_name("bin/d", "bin/a")?;
    Ok(vec![("empty", empty), ("some", writer.to_bytes()?)])
}

/// A question for the card's hardware address, a connection request, a datagram, and an offer of DHCP's begun. The same over
/// IPv6, with a router's advertisement and a query of a multicast router.
fn frames() -> Seeds {
    const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const THERE: [u8; 6] = [2, 0, 0, 0, 0, 9];
    let ip = |protocol: u8, payload: &[u8]| {
        let mut packet = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend([192, 0, 2, 9, 192, 0, 2, 1]);
        packet.extend(payload);
        [&HERE[..], &THERE, &[8, 0], &packet].concat()
    };
    let question = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1];
    let arp = [&[0xff; 6][..], &THERE, &[8, 6], &question].concat();
    let request = ip(6, &[4, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 16, 0, 0, 0, 0, 0]);
    let datagram = ip(17, &[4, 0, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4]);
    let offer = ip(17, &[0, 67, 0, 68, 0, 8, 0, 0]);
    let router = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let own = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1];
    let all = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let v6 = |protocol: u8, hops: u8, to: [u8; 16], payload: &[u8]| {
        let head = [0x60, 0, 0, 0, 0, payload.len() as u8, protocol, hops];
        let mac = if to == all { [0x33, 0x33, 0, 0, 0, 1] } else { HERE };
        [&mac[..], &THERE, &[0x86, 0xdd], &head, &router, &to, payload].concat()
    };
    let prefix = [&[3, 4, 64, 0xc0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8][..], &[0; 12]].concat();
    let server = [&[25, 3, 0, 0, 0, 0, 9, 0][..], &router].concat();
    let told = [&[134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0][..], &prefix, &server].concat();
    let told = v6(58, 255, all, &told);
    let asks = v6(58, 255, own, &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &own, &[1, 1], &THERE].concat());
    let says = v6(58, 255, own, &[&[136, 0, 0, 0, 0x60, 0, 0, 0][..], &router, &[2, 1], &THERE].concat());
    let query = [&[58, 0, 5, 2, 0, 0, 1, 0, 130, 0, 0, 0, 3, 0xe8, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
    let query = v6(0, 1, all, &query);
    let opens = v6(6, 64, own, &[4, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 16, 0, 0, 1, 0, 0]);
    let sends = v6(17, 64, own, &[4, 0, 0, 7, 0, 12, 0, 1, 1, 2, 3, 4]);
    let echo = v6(58, 64, own, &[128, 0, 0, 0, 0, 7, 0, 1]);
    let written = |kind: u8, frames: &[&Vec<u8>]| {
        let mut bytes = vec![kind];
        for frame in frames {
            bytes.extend((frame.len() as u16).to_le_bytes());
            bytes.extend([10, 0]);
            bytes.extend(*frame);
        }
        bytes
    };
    vec![
        ("fixed", written(0, &[&arp, &request, &request, &datagram])),
        ("dhcp", written(1, &[&arp, &offer, &datagram])),
        ("routers", written(0, &[&told, &query, &told])),
        ("ipv6", written(2, &[&asks, &says, &opens, &sends, &echo])),
    ]
}

/// Each call once, with words that are handles, addresses and numbers in turn.
fn calls() -> Seeds {
    let memory: Vec<u8> = (0..512_u32).map(|at| if at % 8 == 0 { (at / 8) as u8 } else { 0 }).collect();
    let mut seeds = Vec::new();
    for (name, kinds) in [
        ("handles", [1, 0, 3, 0, 3, 0, 3, 3]),
        ("memory", [1, 0, 4, 4, 1, 4, 3, 3]),
        ("made", [0, 3, 3, 3, 3, 3, 3, 3]),
    ] {
        let mut bytes = memory.clone();
        for call in abi::SYSCALLS.iter().filter(|call| call.nr < 254).take(64) {
            bytes.extend([0, call.nr as u8]);
            for (place, kind) in kinds.into_iter().enumerate() {
                bytes.extend([kind, (call.nr as usize + place * 8) as u8, 0]);
            }
        }
        seeds.push((name, bytes));
    }
    seeds
}

fn descriptions() -> Result<Seeds, Box<dyn Error>> {
    Ok(vec![
        ("nothing", description::encode(&[], &[]).map_err(|_| "a description without parts")?),
        ("services", services::encode(&[]).map_err(|_| "a list without services")?),
    ])
}

/// A file with one segment of code and a dynamic section that names no library.
fn elf() -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend([3_u16, 62].iter().flat_map(|n| n.to_le_bytes()));
    file.extend(1_u32.to_le_bytes());
    // Entry, program headers, section headers.
    file.extend([0x200_u64, 64, 0].iter().flat_map(|n| n.to_le_bytes()));
    file.extend(0_u32.to_le_bytes());
    file.extend([64_u16, 56, 2, 64, 0, 0].iter().flat_map(|n| n.to_le_bytes()));
    for (kind, flags, offset, size) in [(1_u32, 5_u32, 0_u64, 0x300_u64), (2, 4, 0x280, 0x40)] {
        file.extend([kind, flags].iter().flat_map(|n| n.to_le_bytes()));
        file.extend([offset, offset, offset, size, size, 0x1000].iter().flat_map(|n| n.to_le_bytes()));
    }
    file.resize(0x280, 0);
    // DT_STRTAB, DT_NEEDED, the end.
    file.extend([5_u64, 0x2c0, 1, 1, 0, 0, 0, 0].iter().flat_map(|n| n.to_le_bytes()));
    file.extend(b"\0libc.so\0");
    file.resize(0x300, 0);
    file
}

fn processargs() -> Result<Seeds, Box<dyn Error>> {
    let mut builder = Builder::new();
    let empty = builder.build()?;
    builder.arg(b"program").arg(b"-x").env(b"A=1").name(b"/svc");
    builder.handle(HandleInfo::from_word(0x30)).handle(HandleInfo::from_word(0x1_0030));
    let full = builder.build()?;
    let with = |handles: u8, bytes: Vec<u8>| [vec![handles], bytes].concat();
    Ok(vec![("empty", with(0, empty)), ("full", with(2, full))])
}
