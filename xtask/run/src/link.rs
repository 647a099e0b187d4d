//! The host link: transfers a program's input, output and exit code between `init` in the system and this tool.
//!
//! Frames in both directions consist of a type byte, a length (u16, little endian) and that many bytes. The second
//! serial port carries them, so they may arrive in pieces of any size.

/// A frame from the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The program wrote to its standard output.
    Stdout(Vec<u8>),
    /// The program wrote to its standard error.
    Stderr(Vec<u8>),
    /// The program ended with this code (Zircon's: killed programs have negative codes).
    Exit(i64),
    /// A piece of the system-call trace.
    Trace(Vec<u8>),
    /// An event: a name, then values, separated by tabs.
    Event(String),
}

impl Frame {
    /// Size of its payload in bytes.
    pub fn size(&self) -> usize {
        match self {
            Frame::Stdout(bytes) | Frame::Stderr(bytes) | Frame::Trace(bytes) => bytes.len(),
            Frame::Event(text) => text.len(),
            Frame::Exit(_) => 8,
        }
    }
}

/// A frame to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToSystem<'a> {
    /// Input for the program; empty for its end. At most 65,535 bytes.
    Stdin(&'a [u8]),
    /// Size of the terminal: columns, rows.
    WindowSize(u16, u16),
    /// Ctrl-C.
    Interrupt,
    /// The system must shut down.
    End,
}

impl ToSystem<'_> {
    /// Encodes the frame.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            ToSystem::Stdin(bytes) => (0x10, bytes.to_vec()),
            ToSystem::WindowSize(columns, rows) => (0x11, [columns.to_le_bytes(), rows.to_le_bytes()].concat()),
            ToSystem::Interrupt => (0x12, Vec::new()),
            ToSystem::End => (0x13, Vec::new()),
        };
        let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        let mut frame = vec![kind];
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&payload[..usize::from(length)]);
        frame
    }
}

/// The bytes are not frames: the two ends are out of step, and later bytes cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfStep(pub u8);

impl std::fmt::Display for OutOfStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the host link is out of step (a frame of type {:#x})", self.0)
    }
}

impl std::error::Error for OutOfStep {}

/// The root task sends this when an instance's link starts anew, possibly in the middle of a frame. Programs cannot
/// know it, because it is random for each machine.
pub type Mark = [u8; 16];

/// Reassembles frames from the pieces that arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    mark: Option<Mark>,
    /// The last bytes, in which a mark may have begun.
    tail: Vec<u8>,
    /// The received bytes were not a frame; everything up to the next mark is dropped.
    lost: Option<u8>,
}

impl Decoder {
    /// A decoder that starts anew after each mark.
    pub fn with_mark(mark: Mark) -> Decoder {
        Decoder { mark: Some(mark), ..Decoder::default() }
    }

    /// Drops everything before the last mark that ends in this piece. Returns the rest of the piece.
    fn behind_mark<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let Some(mark) = self.mark else { return piece };
        let before = self.tail.len();
        self.tail.extend_from_slice(piece);
        let found = self.tail.windows(mark.len()).rposition(|part| part == mark);
        let start = found.map_or(0, |at| at + mark.len());
        let kept = (self.tail.len() - start).min(mark.len() - 1);
        self.tail.drain(..self.tail.len() - kept);
        if found.is_none() {
            return piece;
        }
        self.pending.clear();
        self.lost = None;
        &piece[start.saturating_sub(before)..]
    }

    /// Takes a piece; returns the frames that are complete now.
    ///
    /// # Errors
    /// [`OutOfStep`].
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Frame>, OutOfStep> {
        let piece = self.behind_mark(piece);
        if let Some(kind) = self.lost {
            return Err(OutOfStep(kind));
        }
        self.pending.extend_from_slice(piece);
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some(&[kind, low, high]) = self.pending[at..].first_chunk() {
            let end = at + 3 + usize::from(u16::from_le_bytes([low, high]));
            let Some(payload) = self.pending.get(at + 3..end) else { break };
            let frame = frame(kind, payload).inspect_err(|_| self.lost = Some(kind));
            frames.push(frame.inspect_err(|_| self.pending.clear())?);
            at = end;
        }
        self.pending.drain(..at);
        Ok(frames)
    }
}

fn frame(kind: u8, payload: &[u8]) -> Result<Frame, OutOfStep> {
    Ok(match kind {
        1 => Frame::Stdout(payload.to_vec()),
        2 => Frame::Stderr(payload.to_vec()),
        3 => Frame::Exit(i64::from_le_bytes(payload.try_into().map_err(|_| OutOfStep(kind))?)),
        4 => Frame::Event(String::from_utf8_lossy(payload).into_owned()),
        5 => Frame::Trace(payload.to_vec()),
        _ => return Err(OutOfStep(kind)),
    })
}

/// The host's exit code for a program's return code.
pub fn exit_code(code: i64) -> u8 {
    const EXCEPTION_KILLED: i64 = -1028;
    match code {
        EXCEPTION_KILLED => 134,
        -1027..=-1024 => 137,
        _ => u8::try_from(code).unwrap_or(255),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, payload) in frames {
            bytes.push(*kind);
            bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    #[test]
    fn exit_codes() {
        for (code, expected) in [(0, 0), (7, 7), (255, 255), (256, 255), (-1, 255), (-1028, 134), (-1024, 137)] {
            assert_eq!(exit_code(code), expected, "for {code}");
        }
    }

    #[test]
    fn an_unknown_type_is_an_error() {
        assert_eq!(Decoder::default().push(&[9, 0, 0]), Err(OutOfStep(9)));
        assert_eq!(Decoder::default().push(&[3, 1, 0, 5]), Err(OutOfStep(3)));
    }

    #[test]
    fn to_the_system() {
        assert_eq!(ToSystem::Stdin(b"ab").encode(), [0x10, 2, 0, b'a', b'b']);
        assert_eq!(ToSystem::WindowSize(80, 24).encode(), [0x11, 4, 0, 80, 0, 24, 0]);
        assert_eq!(ToSystem::Interrupt.encode(), [0x12, 0, 0]);
        assert_eq!(ToSystem::End.encode(), [0x13, 0, 0]);
    }

    #[test]
    fn a_mark_begins_anew() {
        let mark = *b"0123456789abcdef";
        let bytes = [&[1, 100, 0, b'x'][..], &mark, &[1, 1, 0, b'y']].concat();
        for cut in 0..=bytes.len() {
            let mut decoder = Decoder::with_mark(mark);
            let mut frames = decoder.push(&bytes[..cut]).unwrap();
            frames.extend(decoder.push(&bytes[cut..]).unwrap());
            assert_eq!(frames, [Frame::Stdout(vec![b'y'])], "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            frames in proptest::collection::vec((1u8..=2, proptest::collection::vec(any::<u8>(), 0..300)), 0..8),
            cuts in proptest::collection::vec(0usize..2000, 0..20),
        ) {
            let bytes = encode(&frames);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for pair in cuts.windows(2) {
                found.extend(decoder.push(&bytes[pair[0]..pair[1]]).unwrap());
            }
            let expected: Vec<Frame> = frames
                .into_iter()
                .map(|(kind, payload)| if kind == 1 { Frame::Stdout(payload) } else { Frame::Stderr(payload) })
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Decoder::default().push(&bytes);
        }

        /// Frames with valid syntax, of any length, cut anywhere, with marks in between.
        #[test]
        fn no_frames_make_it_panic_or_hold_much(
            frames in proptest::collection::vec((0u8..8, prop_oneof![Just(0u16), Just(8), Just(u16::MAX), any::<u16>()]), 0..20),
            size in 1usize..70_000,
            with_mark in any::<bool>(),
        ) {
            let mark = *b"0123456789abcdef";
            let mut bytes = Vec::new();
            for (n, (kind, length)) in frames.into_iter().enumerate() {
                bytes.push(kind);
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend(std::iter::repeat_n(0xff, usize::from(length) / (1 + n % 2)));
                if n % 5 == 4 {
                    bytes.extend_from_slice(&mark);
                }
            }
            let mut decoder = if with_mark { Decoder::with_mark(mark) } else { Decoder::default() };
            for piece in bytes.chunks(size) {
                if decoder.push(piece).is_err() {
                    break;
                }
                prop_assert!(decoder.pending.len() < 3 + usize::from(u16::MAX) && decoder.tail.len() < mark.len());
            }
        }

        #[test]
        fn any_code_is_an_exit_code(code in any::<i64>()) {
            let _ = exit_code(code);
        }
    }
}
