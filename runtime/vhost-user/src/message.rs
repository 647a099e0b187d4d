//! The form of messages: exact sizes, and how many handles come with each.

use alloc::vec::Vec;

/// Size of a header in bytes.
pub const HEADER: usize = 12;
/// Limit on the regions of memory.
pub const MAX_REGIONS: usize = 8;
/// Size of a region in a message in bytes.
const REGION: usize = 32;
/// Size of the longest part of the configuration that is read at a time.
pub const MAX_CONFIG: usize = 256;
/// Size of the longest request in bytes, that of [`Request::SetMemTable`] or of one for configuration.
pub const LONGEST: usize = HEADER + 12 + MAX_CONFIG;
/// The version of the protocol, in a header's flags.
pub const VERSION: u32 = 1;
/// In a header's flags: this is an answer.
pub const REPLY: u32 = 1 << 2;
/// In a header's flags: the sender wants an answer.
pub const NEED_REPLY: u32 = 1 << 3;
/// In the number of [`Request::SetVringKick`] and its kin: there is no handle.
pub const NO_HANDLE: u64 = 0x100;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum MessageKind {
    GetFeatures = 1,
    SetFeatures = 2,
    SetOwner = 3,
    ResetOwner = 4,
    SetMemTable = 5,
    SetVringNum = 8,
    SetVringAddr = 9,
    SetVringBase = 10,
    GetVringBase = 11,
    SetVringKick = 12,
    SetVringCall = 13,
    SetVringErr = 14,
    GetProtocolFeatures = 15,
    SetProtocolFeatures = 16,
    GetQueueNum = 17,
    SetVringEnable = 18,
    SetBackendReqFd = 21,
    GetConfig = 24,
    SetConfig = 25,
}

impl MessageKind {
    const ALL: [MessageKind; 19] = {
        use MessageKind::*;
        [
            GetFeatures,
            SetFeatures,
            SetOwner,
            ResetOwner,
            SetMemTable,
            SetVringNum,
            SetVringAddr,
            SetVringBase,
            GetVringBase,
            SetVringKick,
            SetVringCall,
            SetVringErr,
            GetProtocolFeatures,
            SetProtocolFeatures,
            GetQueueNum,
            SetVringEnable,
            SetBackendReqFd,
            GetConfig,
            SetConfig,
        ]
    };

    /// Whether the answer is more than a status.
    pub fn has_own_reply(self) -> bool {
        use MessageKind::*;
        matches!(self, GetFeatures | GetProtocolFeatures | GetQueueNum | GetVringBase | GetConfig)
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A [`MessageKind`].
    pub request: u32,
    /// The version, [`REPLY`], [`NEED_REPLY`].
    pub flags: u32,
    /// Size of the payload in bytes.
    pub size: u32,
}

impl Header {
    /// Encodes it.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// Decodes it. `None`: there are too few bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Header> {
        Some(Header { request: u32_at(bytes, 0)?, flags: u32_at(bytes, 4)?, size: u32_at(bytes, 8)? })
    }
}

/// A region of a guest's memory. The addresses are chosen by the front end; they are checked not to overflow, and to be
/// whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Where the guest sees it: addresses in descriptors.
    pub guest_address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Where the front end sees it: addresses of rings.
    pub user_address: u64,
    /// Where it begins in its VMO.
    pub offset: u64,
}

impl Region {
    fn is_valid(&self) -> bool {
        let whole = |number: u64| number.is_multiple_of(4096);
        let ends = |start: u64| start.checked_add(self.size).is_some();
        self.size > 0
            && whole(self.size)
            && whole(self.offset)
            && whole(self.guest_address)
            && ends(self.guest_address)
            && ends(self.user_address)
            && ends(self.offset)
    }

    /// The first address of the guest's behind it.
    pub fn end(&self) -> u64 {
        self.guest_address.saturating_add(self.size)
    }

    fn overlaps(&self, other: &Region) -> bool {
        self.guest_address < other.end() && other.guest_address < self.end()
    }
}

/// A number about a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringState {
    /// The queue.
    pub index: u32,
    /// The number.
    pub number: u32,
}

/// Where the parts of a queue are, as the front end sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VringAddress {
    /// The queue.
    pub index: u32,
    /// Zero: dirty pages are not logged.
    pub flags: u32,
    /// The table of descriptors.
    pub descriptors: u64,
    /// The used ring.
    pub used: u64,
    /// The available ring.
    pub available: u64,
    /// For logging.
    pub log: u64,
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has another size than its kind says, or other bytes in its header.
    Size,
    /// It has more or fewer handles.
    Handles,
    /// Its kind is unknown, or its version.
    Unknown,
    /// A number in it is out of range.
    Range,
    /// It does not fit the state of the connection.
    State,
    /// It needs a feature that was not offered or not negotiated.
    Feature,
}

/// A request, whose size and number of handles were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which features has the device?
    GetFeatures,
    /// The features that are used.
    SetFeatures(u64),
    /// A front end takes the device.
    SetOwner,
    /// Obsolete, without effect.
    ResetOwner,
    /// The guest's memory. Carries a VMO for each region.
    SetMemTable(Vec<Region>),
    /// The number of a queue's descriptors.
    SetVringNum(VringState),
    /// The addresses of a queue's parts.
    SetVringAddr(VringAddress),
    /// The index of the available ring with which a queue begins.
    SetVringBase(VringState),
    /// Stops a queue, and asks for the index it would continue with.
    GetVringBase(u32),
    /// The event by which the driver notifies of a queue. Carries it.
    SetVringKick(u32),
    /// The event by which the device notifies of a queue; false: it does not notify. Carries the event if true.
    SetVringCall(u32, bool),
    /// An event for errors, which is not used. Carries the event if true.
    SetVringErr(u32, bool),
    /// Which protocol features has the back end?
    GetProtocolFeatures,
    /// The protocol features that are used.
    SetProtocolFeatures(u64),
    /// How many queue pairs has the device?
    GetQueueNum,
    /// Enables or disables a queue.
    SetVringEnable(u32, bool),
    /// The channel for requests of the back end. Carries it.
    SetBackendReqFd,
    /// Asks for part of the configuration: offset, size, flags.
    GetConfig(u32, u32, u32),
    /// Changes part of the configuration.
    SetConfig,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A payload of one number.
fn number(payload: &[u8]) -> Result<u64, Fault> {
    payload.try_into().map(u64::from_le_bytes).map_err(|_| Fault::Size)
}

fn vring_state(payload: &[u8]) -> Result<VringState, Fault> {
    match (payload.len(), u32_at(payload, 0), u32_at(payload, 4)) {
        (8, Some(index), Some(number)) => Ok(VringState { index, number }),
        _ => Err(Fault::Size),
    }
}

/// The queue of a kick, and whether a handle comes with it.
fn vring_handle(payload: &[u8]) -> Result<(u32, bool), Fault> {
    let number = number(payload)?;
    if number & !(NO_HANDLE | 0xff) != 0 {
        return Err(Fault::Range);
    }
    Ok(((number & 0xff) as u32, number & NO_HANDLE == 0))
}

fn vring_address(payload: &[u8]) -> Option<VringAddress> {
    (payload.len() == 40).then_some(())?;
    Some(VringAddress {
        index: u32_at(payload, 0)?,
        flags: u32_at(payload, 4)?,
        descriptors: u64_at(payload, 8)?,
        used: u64_at(payload, 16)?,
        available: u64_at(payload, 24)?,
        log: u64_at(payload, 32)?,
    })
}

/// The regions. Behind them, a message may have room for more: Linux always sends room for two.
fn regions(payload: &[u8]) -> Result<Vec<Region>, Fault> {
    let count = u32_at(payload, 0).ok_or(Fault::Size)? as usize;
    if !(1..=MAX_REGIONS).contains(&count) {
        return Err(Fault::Range);
    }
    let records = payload.get(8..).ok_or(Fault::Size)?;
    if !records.len().is_multiple_of(REGION) || !(count..=MAX_REGIONS).contains(&(records.len() / REGION)) {
        return Err(Fault::Size);
    }
    let mut regions: Vec<Region> = Vec::with_capacity(count);
    for record in records.chunks_exact(REGION).take(count) {
        let word = |at| u64_at(record, at).ok_or(Fault::Size);
        let region = Region { guest_address: word(0)?, size: word(8)?, user_address: word(16)?, offset: word(24)? };
        if !region.is_valid() || regions.iter().any(|other| other.overlaps(&region)) {
            return Err(Fault::Range);
        }
        regions.push(region);
    }
    Ok(regions)
}

impl Request {
    /// Reads a request's header: its kind, and whether the sender wants an answer. The message has `len` bytes in all.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn kind(bytes: &[u8]) -> Result<(MessageKind, bool), Fault> {
        let header = Header::from_bytes(bytes).ok_or(Fault::Size)?;
        if header.flags & !NEED_REPLY != VERSION {
            return Err(Fault::Unknown);
        }
        let kind = MessageKind::ALL.into_iter().find(|kind| *kind as u32 == header.request).ok_or(Fault::Unknown)?;
        if header.size as usize != bytes.len() - HEADER {
            return Err(Fault::Size);
        }
        Ok((kind, header.flags & NEED_REPLY != 0))
    }

    /// Decodes a request that came with this many handles.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8], handles: usize) -> Result<Request, Fault> {
        let (kind, _) = Request::kind(bytes)?;
        let payload = bytes.get(HEADER..).ok_or(Fault::Size)?;
        let empty = |request| if payload.is_empty() { Ok(request) } else { Err(Fault::Size) };
        let request = match kind {
            MessageKind::GetFeatures => empty(Request::GetFeatures)?,
            MessageKind::SetFeatures => Request::SetFeatures(number(payload)?),
            MessageKind::SetOwner => empty(Request::SetOwner)?,
            MessageKind::ResetOwner => empty(Request::ResetOwner)?,
            MessageKind::SetMemTable => Request::SetMemTable(regions(payload)?),
            MessageKind::SetVringNum => Request::SetVringNum(vring_state(payload)?),
            MessageKind::SetVringAddr => Request::SetVringAddr(vring_address(payload).ok_or(Fault::Size)?),
            MessageKind::SetVringBase => Request::SetVringBase(vring_state(payload)?),
            MessageKind::GetVringBase => Request::GetVringBase(vring_state(payload)?.index),
            MessageKind::SetVringKick => match vring_handle(payload)? {
                (index, true) => Request::SetVringKick(index),
                (_, false) => return Err(Fault::Feature),
            },
            MessageKind::SetVringCall => vring_handle(payload).map(|(index, has)| Request::SetVringCall(index, has))?,
            MessageKind::SetVringErr => vring_handle(payload).map(|(index, has)| Request::SetVringErr(index, has))?,
            MessageKind::GetProtocolFeatures => empty(Request::GetProtocolFeatures)?,
            MessageKind::SetProtocolFeatures => Request::SetProtocolFeatures(number(payload)?),
            MessageKind::GetQueueNum => empty(Request::GetQueueNum)?,
            MessageKind::SetVringEnable => match vring_state(payload)? {
                VringState { index, number: number @ (0 | 1) } => Request::SetVringEnable(index, number == 1),
                _ => return Err(Fault::Range),
            },
            MessageKind::SetBackendReqFd => empty(Request::SetBackendReqFd)?,
            MessageKind::GetConfig => {
                let word = |at| u32_at(payload, at).ok_or(Fault::Size);
                let (offset, size, flags) = (word(0)?, word(4)?, word(8)?);
                if size as usize > MAX_CONFIG {
                    return Err(Fault::Range);
                }
                // The payload has room for what is asked for.
                if payload.len() != 12 + size as usize {
                    return Err(Fault::Size);
                }
                Request::GetConfig(offset, size, flags)
            }
            MessageKind::SetConfig => Request::SetConfig,
        };
        if handles == request.handles() { Ok(request) } else { Err(Fault::Handles) }
    }

    /// How many handles come with it.
    fn handles(&self) -> usize {
        match self {
            Request::SetMemTable(regions) => regions.len(),
            Request::SetVringKick(_)
            | Request::SetVringCall(_, true)
            | Request::SetVringErr(_, true)
            | Request::SetBackendReqFd => 1,
            _ => 0,
        }
    }

    /// What it is about.
    pub fn message_kind(&self) -> MessageKind {
        match self {
            Request::GetFeatures => MessageKind::GetFeatures,
            Request::SetFeatures(_) => MessageKind::SetFeatures,
            Request::SetOwner => MessageKind::SetOwner,
            Request::ResetOwner => MessageKind::ResetOwner,
            Request::SetMemTable(_) => MessageKind::SetMemTable,
            Request::SetVringNum(_) => MessageKind::SetVringNum,
            Request::SetVringAddr(_) => MessageKind::SetVringAddr,
            Request::SetVringBase(_) => MessageKind::SetVringBase,
            Request::GetVringBase(_) => MessageKind::GetVringBase,
            Request::SetVringKick(_) => MessageKind::SetVringKick,
            Request::SetVringCall(..) => MessageKind::SetVringCall,
            Request::SetVringErr(..) => MessageKind::SetVringErr,
            Request::GetProtocolFeatures => MessageKind::GetProtocolFeatures,
            Request::SetProtocolFeatures(_) => MessageKind::SetProtocolFeatures,
            Request::GetQueueNum => MessageKind::GetQueueNum,
            Request::SetVringEnable(..) => MessageKind::SetVringEnable,
            Request::SetBackendReqFd => MessageKind::SetBackendReqFd,
            Request::GetConfig(..) => MessageKind::GetConfig,
            Request::SetConfig => MessageKind::SetConfig,
        }
    }

    /// Encodes it, for a front end.
    pub fn to_bytes(&self, need_reply: bool) -> Vec<u8> {
        let mut payload = Vec::new();
        let pair = |one: u32, two: u32| [one.to_le_bytes(), two.to_le_bytes()].concat();
        let with = |index: u32, has: bool| (u64::from(index) | if has { 0 } else { NO_HANDLE }).to_le_bytes();
        match self {
            Request::SetFeatures(number) | Request::SetProtocolFeatures(number) => {
                payload.extend(number.to_le_bytes());
            }
            Request::SetMemTable(regions) => {
                payload.extend(pair(regions.len() as u32, 0));
                for region in regions {
                    let words = [region.guest_address, region.size, region.user_address, region.offset];
                    payload.extend(words.into_iter().flat_map(u64::to_le_bytes));
                }
            }
            Request::SetVringNum(state) | Request::SetVringBase(state) => {
                payload.extend(pair(state.index, state.number));
            }
            Request::GetVringBase(index) => payload.extend(pair(*index, 0)),
            Request::SetVringEnable(index, enabled) => payload.extend(pair(*index, (*enabled).into())),
            Request::SetVringAddr(address) => {
                payload.extend(pair(address.index, address.flags));
                let words = [address.descriptors, address.used, address.available, address.log];
                payload.extend(words.into_iter().flat_map(u64::to_le_bytes));
            }
            Request::SetVringKick(index) => payload.extend(with(*index, true)),
            Request::SetVringCall(index, has) | Request::SetVringErr(index, has) => payload.extend(with(*index, *has)),
            Request::GetConfig(offset, size, flags) => {
                payload.extend([*offset, *size, *flags].into_iter().flat_map(u32::to_le_bytes));
                payload.resize(12 + *size as usize, 0);
            }
            _ => {}
        }
        let flags = VERSION | if need_reply { NEED_REPLY } else { 0 };
        message(self.message_kind(), flags, &payload)
    }
}

fn message(kind: MessageKind, flags: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header { request: kind as u32, flags, size: payload.len() as u32 };
    [&header.to_bytes(), payload].concat()
}

/// Encodes an answer.
pub fn reply(kind: MessageKind, payload: &[u8]) -> Vec<u8> {
    message(kind, VERSION | REPLY, payload)
}

/// Encodes an answer that is a number. For requests without an answer of their own, zero says that they succeeded.
pub fn reply_u64(kind: MessageKind, number: u64) -> Vec<u8> {
    reply(kind, &number.to_le_bytes())
}

/// Encodes the answer to [`Request::GetVringBase`].
pub fn reply_vring(state: VringState) -> Vec<u8> {
    reply(MessageKind::GetVringBase, &[state.index.to_le_bytes(), state.number.to_le_bytes()].concat())
}

/// Encodes the answer to [`Request::GetConfig`]: that part of `config`, which continues with zeroes.
pub fn reply_config(offset: u32, size: u32, flags: u32, config: &[u8]) -> Vec<u8> {
    let mut payload: Vec<u8> = [offset, size, flags].into_iter().flat_map(u32::to_le_bytes).collect();
    let bytes = config.iter().copied().skip(offset as usize).chain(core::iter::repeat(0));
    payload.extend(bytes.take((size as usize).min(MAX_CONFIG)));
    reply(MessageKind::GetConfig, &payload)
}
