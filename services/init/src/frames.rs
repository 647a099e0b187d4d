//! The frames of the host link: `[type u8][length u16 LE][payload]`.
//!
//! The link is a serial line, so reads return arbitrary pieces; [`Decoder`] reassembles frames. A frame of an unknown
//! type is passed on unchanged, so that either side may learn new types before the other.

/// Maximum payload that this side sends: long enough to make the header cheap, short enough that the output of two
/// programs and an EXIT never wait long for one another.
pub const MAX_PAYLOAD: usize = 4096;

/// Bytes for the host's standard output.
pub const STDOUT: u8 = 1;
/// Bytes for the host's standard error.
pub const STDERR: u8 = 2;
/// The return code, i64: the last frame of a run.
pub const EXIT: u8 = 3;
/// UTF-8 text, fields separated by tabs.
pub const EVENT: u8 = 4;
/// Bytes of the system-call trace.
pub const TRACE: u8 = 5;
/// Bytes of the host's standard input; an empty payload marks its end.
pub const STDIN: u8 = 0x10;
/// Columns and rows of the host's terminal, u16 each.
pub const WINDOW_SIZE: u8 = 0x11;
/// The user wants the foreground program to end.
pub const INTERRUPT: u8 = 0x12;
/// The system must end: programs are killed, writes are made durable, and EXIT follows.
pub const END: u8 = 0x13;

const HEADER: usize = 3;

/// A frame that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// One of the constants of this module, or a type from a newer host.
    pub kind: u8,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Appends one frame to `output`. The caller splits payloads longer than [`MAX_PAYLOAD`]. Bytes beyond the 16-bit
/// length are not sent.
pub fn encode(kind: u8, payload: &[u8], output: &mut Vec<u8>) {
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    output.push(kind);
    output.extend_from_slice(&length.to_le_bytes());
    output.extend_from_slice(&payload[..usize::from(length)]);
}

/// Reassembles frames from the bytes of the line.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Adds received bytes and returns the frames that are complete now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.bytes.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut rest = self.bytes.as_slice();
        while let [kind, low, high, after @ ..] = rest {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let Some(payload) = after.get(..length) else { break };
            frames.push(Frame { kind: *kind, payload: payload.to_vec() });
            rest = &rest[HEADER + length..];
        }
        let used = self.bytes.len() - rest.len();
        self.bytes.drain(..used);
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_frames() {
        let mut line = Vec::new();
        encode(STDIN, b"hello", &mut line);
        encode(STDIN, b"", &mut line);
        encode(0x7f, &[7; 300], &mut line);
        encode(INTERRUPT, b"", &mut line);
        let whole = Decoder::default().push(&line);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0], Frame { kind: STDIN, payload: b"hello".to_vec() });
        assert_eq!(whole[2].payload, [7; 300]);
        for size in 1..line.len() {
            let mut decoder = Decoder::default();
            let pieces: Vec<Frame> = line.chunks(size).flat_map(|piece| decoder.push(piece)).collect();
            assert_eq!(pieces, whole, "pieces of {size}");
        }
    }

    #[test]
    fn an_incomplete_frame_waits() {
        let mut decoder = Decoder::default();
        assert!(decoder.push(&[STDIN, 3, 0, b'a', b'b']).is_empty());
        assert_eq!(decoder.push(b"c!"), [Frame { kind: STDIN, payload: b"abc".to_vec() }]);
        assert!(decoder.push(&[0, 0]).len() == 1, "the byte before became the type");
    }

    #[test]
    fn the_length_is_little_endian() {
        let mut line = Vec::new();
        encode(STDOUT, &[1; 258], &mut line);
        assert_eq!(&line[..4], [STDOUT, 2, 1, 1]);
        assert_eq!(line.len(), 261);
    }
}
