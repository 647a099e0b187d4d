//! Requests to services: of the right shape with values of every kind, and invalid bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use drivers::block::{self, Operation};
use file_protocol::{Change, Lock};
use hostile::Dice;
use network_protocol::{Choice, Family, Kind};
use processargs::ldsvc;

/// The services.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// The loader service.
    Loader,
    /// The service that connects to others by name.
    Names,
    /// A directory or a file.
    Files,
    /// The network service.
    Network,
    /// A socket of the network service.
    Socket,
    /// The time of day.
    Clock,
    /// The disk's blocks.
    Disk,
}

/// All services.
pub const ALL: [Service; 7] =
    [Service::Loader, Service::Names, Service::Files, Service::Network, Service::Socket, Service::Clock, Service::Disk];

/// Names below `/svc`, and paths of file systems.
pub const NAMES: &[&str] = &[
    "",
    "clock",
    "network",
    "tmp",
    "tmp/fresh",
    "disk",
    "/tmp",
    "/disk",
    "pci/1af4:1042",
    "console",
    "file-memory",
    "disk-files",
    "running:/tmp",
    "nobody",
    "/",
    "//tmp",
    "clock/words",
    "network/fresh",
    "tmp/",
];

/// Paths, most of which can be created.
const PATHS: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"dir",
    b"dir/a",
    b"dir/b",
    b"dir/deep/a",
    b"link",
    b"link/a",
    b"",
    b".",
    b"..",
    b"/",
    b"/tmp/a",
    b"a/b",
    b"../../a",
    b"a\0b",
    b"dir/",
    b"//a",
    b"\xff\xfe",
    b"./a/./b/..",
];

const ODD: [u64; 16] = [
    0,
    1,
    7,
    511,
    512,
    4095,
    4096,
    1 << 16,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 4095,
    u64::MAX,
];

/// A number that is small or at an edge.
pub fn number(dice: &mut Dice) -> u64 {
    match dice.below(4) {
        0 => dice.pick(&ODD),
        1 => dice.word(),
        _ => dice.below(10_000),
    }
}

/// A request.
pub struct Request {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether a correct request carries one end of a channel.
    pub channel: bool,
    /// Whether it also carries both ends of a socket with these options; without a channel, one end.
    pub socket: Option<u32>,
}

impl Request {
    fn new(bytes: Vec<u8>, channel: bool) -> Request {
        Request { bytes, channel, socket: None }
    }
}

/// A request to a service.
pub fn request(dice: &mut Dice, service: Service) -> Request {
    match service {
        Service::Loader => loader(dice),
        Service::Names => names(dice),
        Service::Files => files(dice),
        Service::Network => open_socket(dice),
        Service::Socket => socket(dice),
        Service::Clock => Request::new(vec![dice.pick(&[0, 0, 1, 2, 255])], false),
        Service::Disk => Request::new(vec![dice.pick(&[block::OPEN, block::OPEN, 0, 2])], false),
    }
}

/// Whether an answer reports success.
pub fn is_success(service: Service, bytes: &[u8], handles: usize) -> bool {
    match service {
        Service::Loader => ldsvc::Response::decode(bytes, handles).is_ok_and(|(_, response)| response.status == 0),
        Service::Names => false,
        Service::Files => {
            let answer = file_protocol::decode::<file_protocol::Result<file_protocol::Answer>>(bytes);
            matches!(answer, Ok((Ok(_), _)))
        }
        Service::Network | Service::Socket => matches!(network_protocol::Reply::decode(bytes), Some(Ok(_))),
        Service::Clock => drivers::clock::Time::from_bytes(bytes).is_some(),
        Service::Disk => handles > 0,
    }
}

/// Damages bytes.
pub fn spoil(dice: &mut Dice, bytes: &mut Vec<u8>) {
    match dice.below(6) {
        0 => bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize),
        1 => bytes.extend((0..1 + dice.below(64)).map(|n| n as u8)),
        2 => bytes.resize(bytes.len() + dice.below(60_000) as usize, 0xff),
        3 => *bytes = (0..dice.below(80)).map(|_| dice.word() as u8).collect(),
        _ => {
            for _ in 0..1 + dice.below(4) {
                if !bytes.is_empty() {
                    let at = dice.below(bytes.len() as u64) as usize;
                    bytes[at] = dice.pick(&[0, 1, 0x7f, 0x80, 0xff, dice.clone().word() as u8]);
                }
            }
        }
    }
}

fn loader(dice: &mut Dice) -> Request {
    let long = "x".repeat(ldsvc::MAX_NAME);
    let files = ["libc.so", "libfdio.so", "ld.so.1", "libzircon.so", "nothing.so", "", "../bin/init", "/", &long];
    let request = match dice.below(8) {
        0..4 => ldsvc::Request::LoadObject(dice.pick(&files)),
        4 => ldsvc::Request::Config(dice.pick(&files)),
        5 | 6 => ldsvc::Request::Clone,
        _ => ldsvc::Request::Done,
    };
    let mut bytes = vec![0; ldsvc::MAX_MESSAGE];
    let len = request.encode(dice.word() as u32, &mut bytes).unwrap_or(0);
    bytes.truncate(len);
    Request::new(bytes, request == ldsvc::Request::Clone)
}

/// The request for another connection to the loader.
pub fn clone_loader() -> Vec<u8> {
    let mut bytes = [0; ldsvc::MAX_MESSAGE];
    let len = ldsvc::Request::Clone.encode(1, &mut bytes).unwrap_or(0);
    bytes[..len].to_vec()
}

fn names(dice: &mut Dice) -> Request {
    let name = dice.pick(NAMES);
    let bytes = if dice.one_in(12) { name.repeat(1 + dice.below(60) as usize) } else { name.to_owned() };
    Request::new(bytes.into_bytes(), true)
}

fn files(dice: &mut Dice) -> Request {
    use file_protocol::{Request as Asks, flags};
    let long = vec![b'x'; dice.pick(&[200, 255, 256, 300, 4096, 4097])];
    let path = |dice: &mut Dice| if dice.one_in(16) { long.as_slice() } else { dice.pick(PATHS) };
    let lock = |dice: &mut Dice| dice.pick(&[Lock::Free, Lock::Shared, Lock::Exclusive]);
    let mut data = Vec::new();
    let write = flags::READ | flags::WRITE | flags::CREATE;
    let asks = match dice.below(45) {
        0..7 => {
            let usual = [flags::READ, write, write, flags::DIRECTORY | flags::READ, write | flags::TRUNCATE];
            let flags = if dice.one_in(4) { number(dice) as u32 } else { dice.pick(&usual) };
            Asks::Open { path: path(dice), flags, mode: number(dice) as u32 }
        }
        7 | 8 => Asks::Clone,
        9 => Asks::Describe,
        10 => Asks::Attributes { path: path(dice), follow: dice.one_in(2) },
        11 => {
            let time = |dice: &mut Dice| dice.one_in(2).then(|| number(dice) as i64);
            let change = Change { mode: Some(number(dice) as u32), accessed: time(dice), modified: time(dice) };
            Asks::SetAttributes { path: path(dice), follow: dice.one_in(2), change }
        }
        12 => Asks::Read { len: number(dice) as u32 },
        13 => Asks::ReadAt { offset: number(dice), len: number(dice) as u32 },
        14 => {
            data = vec![0x5a; dice.below(5000) as usize];
            Asks::Write
        }
        15 => {
            data = vec![0xa5; dice.below(500) as usize];
            Asks::WriteAt { offset: number(dice) }
        }
        16 => Asks::Seek { whence: dice.below(4) as u8, offset: number(dice) as i64 },
        17 => Asks::Resize { size: number(dice) },
        18 => Asks::Touched { at: number(dice) as i64 },
        19 => Asks::SetAppend { append: dice.one_in(2) },
        20 => Asks::Memory { write: dice.one_in(2) },
        21 => Asks::Entries { cookie: if dice.one_in(2) { 0 } else { number(dice) } },
        22 => Asks::Fill { folder: path(dice) },
        23 | 24 => Asks::MakeDirectory { path: path(dice), mode: 0o755 },
        25 => Asks::Unlink { path: path(dice), directory: dice.one_in(2) },
        26 => Asks::Rename { from: path(dice), to: path(dice) },
        27 => Asks::Link { from: path(dice), to: path(dice), follow: dice.one_in(2) },
        28 => Asks::MakeLink { path: path(dice), target: path(dice) },
        29 => Asks::ReadLink { path: path(dice) },
        30 => Asks::Resolve { path: path(dice) },
        31 => Asks::Sync,
        32 => Asks::Information,
        33 => Asks::Lock { lock: lock(dice), wait: dice.one_in(2) },
        34 => {
            let (owner, start, end) = (dice.below(4), number(dice), number(dice));
            Asks::LockRange { owner, lock: lock(dice), wait: dice.one_in(2), start, end }
        }
        35 => Asks::Buffer,
        36 => Asks::Fetch { offset: dice.one_in(2).then(|| number(dice)), len: number(dice) as u32 },
        37 => Asks::Bind { path: path(dice), mode: number(dice) as u32 },
        38 => Asks::Listen { backlog: number(dice) as u32, name: path(dice) },
        39 => Asks::Receive { name: path(dice) },
        40 | 41 => Asks::Connect { path: path(dice), name: path(dice), wait: dice.one_in(2) },
        42 => Asks::Accept,
        43 => Asks::Reach { path: path(dice) },
        _ => Asks::TestRange { owner: dice.below(4), lock: lock(dice), start: number(dice), end: number(dice) },
    };
    let bytes = file_protocol::encode(dice.word() as u32, &asks, &data).unwrap_or_default();
    let socket = match asks {
        Asks::Connect { .. } => Some(abi::ZX_SOCKET_STREAM),
        Asks::Receive { .. } => Some(abi::ZX_SOCKET_DATAGRAM),
        _ => None,
    };
    Request { bytes, channel: matches!(asks, Asks::Clone | Asks::Open { .. } | Asks::Bind { .. }), socket }
}

fn address(dice: &mut Dice) -> SocketAddr {
    let loops = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
    let others = [
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Ipv4Addr::BROADCAST.into(),
        Ipv4Addr::new(224, 0, 0, 1).into(),
        Ipv4Addr::new(10, 0, 0, 1).into(),
        Ipv6Addr::UNSPECIFIED.into(),
        Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
    ];
    let ip = if dice.one_in(4) { dice.pick(&others) } else { dice.pick(&loops) };
    SocketAddr::new(ip, dice.pick(&[0, 1, 9, 5000, 5001, 5002, 65_535]))
}

fn open_socket(dice: &mut Dice) -> Request {
    let (family, kind) = (dice.pick(&[Family::V4, Family::V6]), dice.pick(&[Kind::Stream, Kind::Datagram, Kind::Echo]));
    let message = network_protocol::Request::Open(family, kind).encode(dice.word() as u32);
    let socket = Some(if kind == Kind::Stream { abi::ZX_SOCKET_STREAM } else { abi::ZX_SOCKET_DATAGRAM });
    Request { bytes: message.as_bytes().to_vec(), channel: true, socket }
}

fn socket(dice: &mut Dice) -> Request {
    use network_protocol::Request as Asks;
    let groups = [[239, 1, 2, 3], [224, 0, 0, 1], [255, 255, 255, 255], [10, 0, 0, 1]].map(Ipv4Addr::from);
    let interfaces = [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(10, 0, 2, 15)];
    let asks = match dice.below(18) {
        0 => Asks::Clone,
        1 | 2 => Asks::Bind(address(dice)),
        3 | 4 => Asks::Connect { to: address(dice), wait: dice.one_in(2) },
        5 => Asks::Listen(number(dice) as u32),
        6 | 7 => Asks::Accept,
        8 => Asks::LocalAddress,
        9 => Asks::PeerAddress,
        10 => Asks::Set(dice.pick(Choice::ALL), number(dice) as u32),
        11 => Asks::Get(dice.pick(Choice::ALL)),
        12 => Asks::Prepare(address(dice)),
        13 => Asks::Information,
        16 => Asks::CountErrors,
        14 | 15 => Asks::Group { join: !dice.one_in(3), group: dice.pick(&groups), interface: dice.pick(&interfaces) },
        _ => Asks::Open(Family::V4, Kind::Stream),
    };
    let message = asks.encode(dice.word() as u32);
    Request::new(message.as_bytes().to_vec(), asks == Asks::Clone)
}

/// Bytes for a data socket: a datagram with a header, or any bytes.
pub fn datagram(dice: &mut Dice) -> Vec<u8> {
    let to = dice.one_in(2).then(|| address(dice));
    let mut bytes = network_protocol::encode_header(to).to_vec();
    bytes.resize(bytes.len() + dice.pick(&[0, 1, 100, 1400, 9000]), 0x33);
    if dice.one_in(6) {
        spoil(dice, &mut bytes);
    }
    bytes
}

/// A request for blocks. Valid requests only read: the content of the disk belongs to others.
pub fn blocks(dice: &mut Dice) -> Vec<u8> {
    let operation = dice.pick(&[Operation::Read, Operation::Read, Operation::Flush]);
    let (id, block, blocks) = (dice.word() as u32, number(dice), number(dice) as u32);
    let request = block::Request { operation, id, block, blocks, offset: number(dice) as u32 & !511 };
    let mut bytes = request.to_bytes().to_vec();
    if dice.one_in(6) {
        bytes[0] = dice.pick(&[3, 255]);
    }
    bytes
}
