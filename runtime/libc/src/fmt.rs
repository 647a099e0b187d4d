//! `printf` formats: one walker over the format string, used by every function of that family.

use core::fmt::Write as _;

/// Where the values for the conversions come from.
pub trait Arguments {
    /// The next integer or pointer, as passed (narrower ones have undefined upper bits).
    fn int(&mut self) -> u64;
    /// The next `double`.
    fn double(&mut self) -> f64;
    /// The next `long double`: an x87 extended value.
    fn long_double(&mut self) -> [u8; 10];
}

/// Where the text goes.
pub trait Sink {
    /// Takes some more bytes.
    fn put(&mut self, bytes: &[u8]);
}

/// One conversion as written: `%-08.3lx`.
#[derive(Clone, Copy, Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    length: Length,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Length {
    Char,
    Short,
    #[default]
    Int,
    Long,
    LongDouble,
}

/// Formats `format` (without its NUL) into `out`; gives the number of bytes put.
///
/// # Safety
/// `args` must hold what the conversions ask for: valid NUL-terminated strings for `%s` (up to its precision), a valid
/// pointer for `%n`.
pub unsafe fn format(out: &mut dyn Sink, format: &[u8], args: &mut dyn Arguments) -> usize {
    let mut out = Counted { sink: out, count: 0 };
    let mut rest = format;
    while !rest.is_empty() {
        let text = rest.iter().position(|&byte| byte == b'%').unwrap_or(rest.len());
        out.put(&rest[..text]);
        if text == rest.len() {
            break;
        }
        let (spec, after) = parse(&rest[text + 1..], args);
        let Some((&conversion, next)) = after.split_first() else { break };
        // SAFETY: passed on from the caller.
        if !unsafe { convert(&mut out, conversion, &spec, args) } {
            // Not a conversion: show it as it stands.
            out.put(&rest[text..rest.len() - next.len()]);
        }
        rest = next;
    }
    out.count
}

struct Counted<'a> {
    sink: &'a mut dyn Sink,
    count: usize,
}

impl Counted<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.sink.put(bytes);
        self.count = self.count.saturating_add(bytes.len());
    }

    fn fill(&mut self, byte: u8, mut times: usize) {
        let chunk = [byte; 32];
        while times > 0 {
            let now = times.min(chunk.len());
            self.put(&chunk[..now]);
            times -= now;
        }
    }

    /// `sign` + zeros or padding + `body`, as the flags ask. `zeros` are part of the number (its precision).
    fn number(&mut self, spec: &Spec, sign: &[u8], zeros: usize, body: &[u8], zero_pad: bool) {
        let pad = spec.width.saturating_sub(sign.len() + zeros + body.len());
        let zero_pad = zero_pad && spec.zero && !spec.left;
        if !spec.left && !zero_pad {
            self.fill(b' ', pad);
        }
        self.put(sign);
        self.fill(b'0', zeros + if zero_pad { pad } else { 0 });
        self.put(body);
        if spec.left {
            self.fill(b' ', pad);
        }
    }
}

/// Reads flags, width, precision and length; the rest starts with the conversion character.
fn parse<'a>(mut text: &'a [u8], args: &mut dyn Arguments) -> (Spec, &'a [u8]) {
    let mut spec = Spec::default();
    while let Some(&flag) = text.first() {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternate = true,
            b'0' => spec.zero = true,
            _ => break,
        }
        text = &text[1..];
    }
    let (width, after) = count(text, args);
    text = after;
    if let Some(width) = width {
        spec.left |= width < 0;
        spec.width = width.unsigned_abs() as usize;
    }
    if let Some((b'.', after)) = text.split_first() {
        let (precision, after) = count(after, args);
        text = after;
        // A negative precision counts as none.
        spec.precision = usize::try_from(precision.unwrap_or(0)).ok();
    }
    loop {
        let length = match text {
            [b'h', b'h', ..] => Length::Char,
            [b'h', ..] => Length::Short,
            [b'l' | b'z' | b'j' | b't' | b'q', ..] => Length::Long,
            [b'L', ..] => Length::LongDouble,
            _ => return (spec, text),
        };
        let size = if length == Length::Char { 2 } else { 1 };
        spec.length = length;
        text = &text[size..];
    }
}

/// A decimal number or `*`.
fn count<'a>(mut text: &'a [u8], args: &mut dyn Arguments) -> (Option<i32>, &'a [u8]) {
    if let Some((b'*', after)) = text.split_first() {
        return (Some(args.int() as i32), after);
    }
    let mut value = None;
    while let Some(digit) = text.first().filter(|byte| byte.is_ascii_digit()) {
        let digits: i32 = value.unwrap_or(0);
        value = Some(digits.saturating_mul(10).saturating_add(i32::from(digit - b'0')));
        text = &text[1..];
    }
    (value, text)
}

/// Does one conversion; false where there is none of that name.
///
/// # Safety
/// As for [`format`].
unsafe fn convert(out: &mut Counted, conversion: u8, spec: &Spec, args: &mut dyn Arguments) -> bool {
    match conversion {
        b'd' | b'i' => {
            let value = args.int();
            let value = match spec.length {
                Length::Char => i64::from(value as i8),
                Length::Short => i64::from(value as i16),
                Length::Int => i64::from(value as i32),
                Length::Long | Length::LongDouble => value as i64,
            };
            integer(out, spec, sign(spec, value < 0), value.unsigned_abs(), 10, false);
        }
        b'u' | b'x' | b'X' | b'o' | b'b' => {
            let value = args.int();
            let value = match spec.length {
                Length::Char => u64::from(value as u8),
                Length::Short => u64::from(value as u16),
                Length::Int => u64::from(value as u32),
                Length::Long | Length::LongDouble => value,
            };
            let (radix, prefix): (u64, &[u8]) = match conversion {
                b'u' => (10, b""),
                b'o' => (8, b""),
                b'b' => (2, b"0b"),
                b'x' => (16, b"0x"),
                _ => (16, b"0X"),
            };
            let prefix = if spec.alternate && value != 0 { prefix } else { b"" };
            integer(out, spec, prefix, value, radix, conversion == b'X');
        }
        b'p' => {
            let value = args.int();
            integer(out, spec, b"0x", value, 16, false);
        }
        b'c' => out.number(&Spec { zero: false, ..*spec }, b"", 0, &[args.int() as u8], false),
        b's' => {
            let pointer = args.int() as *const u8;
            // SAFETY: the caller vouches for the string up to its NUL or its precision.
            let text = unsafe { bounded(pointer, spec.precision.unwrap_or(usize::MAX)) };
            out.number(&Spec { zero: false, ..*spec }, b"", 0, text, false);
        }
        b'm' => out.put(b"%m"),
        b'n' => {
            let pointer = args.int() as *mut u8;
            // SAFETY: the caller passes a pointer to an integer of the length that it wrote.
            unsafe {
                match spec.length {
                    Length::Char => pointer.cast::<i8>().write_unaligned(out.count as i8),
                    Length::Short => pointer.cast::<i16>().write_unaligned(out.count as i16),
                    Length::Int => pointer.cast::<i32>().write_unaligned(out.count as i32),
                    _ => pointer.cast::<i64>().write_unaligned(out.count as i64),
                }
            }
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
            let value = match spec.length {
                Length::LongDouble => from_extended(args.long_double()),
                _ => args.double(),
            };
            float(out, spec, conversion, value);
        }
        b'%' => out.put(b"%"),
        _ => return false,
    }
    true
}

/// The bytes of a C string, at most `limit`; null shows as such.
///
/// # Safety
/// `pointer` is null or a string valid to its NUL or `limit`.
unsafe fn bounded<'a>(pointer: *const u8, limit: usize) -> &'a [u8] {
    if pointer.is_null() {
        return b"(null)";
    }
    let mut length = 0;
    // SAFETY: within the string, as the caller says.
    while length < limit && unsafe { pointer.add(length).read() } != 0 {
        length += 1;
    }
    // SAFETY: these bytes were just read.
    unsafe { core::slice::from_raw_parts(pointer, length) }
}

fn sign(spec: &Spec, negative: bool) -> &'static [u8] {
    match (negative, spec.plus, spec.space) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    }
}

fn integer(out: &mut Counted, spec: &Spec, sign: &[u8], mut value: u64, radix: u64, upper: bool) {
    let mut buffer = [0; 64];
    let mut at = buffer.len();
    while value != 0 {
        at -= 1;
        let digit = (value % radix) as u8;
        buffer[at] = match digit {
            0..=9 => b'0' + digit,
            _ if upper => b'A' + digit - 10,
            _ => b'a' + digit - 10,
        };
        value /= radix;
    }
    let digits = buffer.len() - at;
    // The precision is the least number of digits; 0 with precision 0 has none; `#o` asks for one leading 0.
    let mut zeros = spec.precision.unwrap_or(1).saturating_sub(digits);
    if radix == 8 && spec.alternate && zeros == 0 {
        zeros = 1;
    }
    out.number(spec, sign, zeros, &buffer[at..], spec.precision.is_none());
}

/// Text of bounded length: a double's longest plain form is 1 + 308 digits before the point.
struct Buffer {
    bytes: [u8; 1200],
    len: usize,
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: [0; 1200], len: 0 }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl core::fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Digits after the point that are computed; more would be zeros in almost every case and are put as such.
const MOST_DIGITS: usize = 800;

fn float(out: &mut Counted, spec: &Spec, conversion: u8, value: f64) {
    let sign = sign(spec, value.is_sign_negative());
    let upper = conversion.is_ascii_uppercase();
    if !value.is_finite() {
        let text: &[u8] = match (value.is_nan(), upper) {
            (true, false) => b"nan",
            (true, true) => b"NAN",
            (false, false) => b"inf",
            (false, true) => b"INF",
        };
        return out.number(&Spec { zero: false, ..*spec }, sign, 0, text, false);
    }
    let value = value.abs();
    let mut text = Buffer::new();
    let wanted = spec.precision.unwrap_or(6);
    match conversion.to_ascii_lowercase() {
        b'f' => plain(&mut text, value, wanted.min(MOST_DIGITS), spec.alternate),
        b'e' => scientific(&mut text, value, wanted.min(MOST_DIGITS), spec.alternate),
        b'g' => general(&mut text, value, wanted.clamp(1, MOST_DIGITS), spec.alternate),
        _ => hexadecimal(&mut text, value, spec.precision),
    }
    if upper {
        let len = text.len;
        text.bytes[..len].make_ascii_uppercase();
    }
    out.number(spec, sign, 0, text.text(), true);
}

fn plain(text: &mut Buffer, value: f64, digits: usize, point: bool) {
    let _ = write!(text, "{value:.digits$}");
    if digits == 0 && point {
        let _ = text.write_str(".");
    }
}

/// C writes at least two digits of exponent and its sign.
fn scientific(text: &mut Buffer, value: f64, digits: usize, point: bool) {
    let mut plain = Buffer::new();
    let _ = write!(plain, "{value:.digits$e}");
    let written = plain.text();
    let split = written.iter().position(|&byte| byte == b'e').unwrap_or(written.len());
    let (mantissa, exponent) = (&written[..split], &written[(split + 1).min(written.len())..]);
    let (sign, exponent) = match exponent.split_first() {
        Some((b'-', rest)) => ("-", rest),
        _ => ("+", exponent),
    };
    let as_str = |bytes| core::str::from_utf8(bytes).unwrap_or("");
    let dot = if digits == 0 && point { "." } else { "" };
    let _ = write!(text, "{}{dot}e{sign}{:0>2}", as_str(mantissa), as_str(exponent));
}

/// `%g`: scientific where the exponent is below -4 or not below the precision; without trailing zeros unless `#`.
fn general(text: &mut Buffer, value: f64, digits: usize, alternate: bool) {
    let mut probe = Buffer::new();
    let precision = digits - 1;
    let _ = write!(probe, "{value:.precision$e}");
    let exponent = probe.text().iter().position(|&byte| byte == b'e').map_or(0, |at| {
        core::str::from_utf8(&probe.text()[at + 1..]).ok().and_then(|digits| digits.parse::<i32>().ok()).unwrap_or(0)
    });
    let mut whole = Buffer::new();
    let small = exponent < -4 || exponent >= digits as i32;
    if small {
        scientific(&mut whole, value, precision, alternate);
    } else {
        let after = (precision as i32 - exponent).max(0) as usize;
        plain(&mut whole, value, after, alternate);
    }
    let written = whole.text();
    let split = if small { written.iter().position(|&byte| byte == b'e') } else { None }.unwrap_or(written.len());
    let (mut mantissa, exponent) = written.split_at(split);
    if !alternate && mantissa.contains(&b'.') {
        while let Some((b'0', rest)) = mantissa.split_last() {
            mantissa = rest;
        }
        if let Some((b'.', rest)) = mantissa.split_last() {
            mantissa = rest;
        }
    }
    for part in [mantissa, exponent] {
        let _ = text.write_str(core::str::from_utf8(part).unwrap_or(""));
    }
}

/// `%a`: the mantissa as hexadecimal digits.
fn hexadecimal(text: &mut Buffer, value: f64, precision: Option<usize>) {
    let bits = value.to_bits();
    let (mut mantissa, exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    let (mut lead, exponent) = match (exponent, mantissa) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        _ => (1, exponent - 1023),
    };
    let mut digits = 13;
    if let Some(precision) = precision.filter(|&precision| precision < 13) {
        // Round half to even at the last digit kept.
        let drop = (13 - precision) * 4;
        let whole = u64::from(lead as u8) << 52 | mantissa;
        let (kept, rest, half) = (whole >> drop, whole & ((1 << drop) - 1), 1 << (drop - 1));
        let kept = kept + u64::from(rest > half || (rest == half && kept & 1 == 1));
        let width = precision * 4;
        lead = (kept >> width) as i32;
        mantissa = kept & ((1 << width) - 1);
        digits = precision;
    } else if precision.is_none() {
        while digits > 0 && mantissa & 15 == 0 {
            mantissa >>= 4;
            digits -= 1;
        }
    }
    let _ = write!(text, "0x{lead}");
    if digits > 0 {
        let _ = write!(text, ".{mantissa:0digits$x}");
    }
    for _ in 13..precision.unwrap_or(0).min(MOST_DIGITS) {
        let _ = text.write_str("0");
    }
    let _ = write!(text, "p{exponent:+}");
}

/// The nearest `double` of an x87 extended value (rounded toward zero).
fn from_extended(bytes: [u8; 10]) -> f64 {
    let mantissa = u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]);
    let top = u16::from_le_bytes([bytes[8], bytes[9]]);
    let negative = u64::from(top >> 15) << 63;
    let exponent = i32::from(top & 0x7fff);
    let fraction = mantissa << 1 >> 12;
    let magnitude = match exponent {
        0x7fff if mantissa << 1 == 0 => f64::INFINITY.to_bits(),
        0x7fff => f64::NAN.to_bits(),
        _ => match exponent - 16383 + 1023 {
            biased if biased >= 2047 => f64::INFINITY.to_bits(),
            biased if biased <= 0 => mantissa.checked_shr((12 - biased) as u32).unwrap_or(0),
            biased => (biased as u64) << 52 | fraction,
        },
    };
    f64::from_bits(negative | magnitude)
}

#[cfg(test)]
#[path = "fmt_tests.rs"]
mod tests;
