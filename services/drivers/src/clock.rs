//! The PC's clock: its registers, and the messages of its driver's clients.
//!
//! A request is one byte, [`NOW`] or [`NEXT`]; the answer is [`Time`]. `NEXT` is answered when the next second begins.

/// Asks for the time.
pub const NOW: u8 = 0;
/// Asks for the time when the next second begins.
pub const NEXT: u8 = 1;

/// Offset of the port that selects a register.
pub const INDEX: u16 = 0;
/// Offset of the port that accesses the selected register.
pub const DATA: u16 = 1;

/// Register A: bit 7 is set during an update of the time.
pub const STATUS_A: u8 = 0x0a;
/// Register B: the format of the time, and which events interrupt.
pub const STATUS_B: u8 = 0x0b;
/// Register C: the cause of the interrupt. Reading it enables the next one.
pub const STATUS_C: u8 = 0x0c;
/// In register A: an update is in progress.
pub const CHANGING: u8 = 0x80;
/// In registers B and C: the update-ended interrupt, once a second.
pub const CHANGED: u8 = 0x10;
/// In register B: numbers are binary, not BCD.
const BINARY: u8 = 4;
/// In register B: hours count from 0 to 23, not twice to 12.
const WHOLE_DAY: u8 = 2;

/// The registers of the time: second, minute, hour, day, month, year, and the century, where PCs have it.
pub const FIELDS: [u8; 7] = [0, 2, 4, 7, 8, 9, 0x32];

/// A time as the clock's driver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    /// Monotonic time of the interrupt at which it was read; 0 if there was none.
    pub at: i64,
    /// Number of interrupts so far.
    pub interrupts: u64,
}

impl Time {
    /// Encodes it for a message.
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..].copy_from_slice(&self.interrupts.to_le_bytes());
        bytes
    }

    /// Decodes it from a message.
    pub fn from_bytes(bytes: &[u8]) -> Option<Time> {
        let bytes: &[u8; 24] = bytes.try_into().ok()?;
        let word = |at: usize| bytes[at..].first_chunk::<8>().copied();
        Some(Time {
            seconds: i64::from_le_bytes(word(0)?),
            at: i64::from_le_bytes(word(8)?),
            interrupts: u64::from_le_bytes(word(16)?),
        })
    }
}

/// Converts the registers [`FIELDS`] to seconds since 1970; `form` is register B. `None` if they are not a valid time.
pub fn seconds(fields: [u8; 7], form: u8) -> Option<i64> {
    let number = |value: u8| {
        if form & BINARY != 0 {
            return Some(i64::from(value));
        }
        (value & 0xf < 10 && value >> 4 < 10).then(|| i64::from(value >> 4) * 10 + i64::from(value & 0xf))
    };
    let [second, minute, hour, day, month, year, century] = fields;
    let mut hours = number(if form & WHOLE_DAY == 0 { hour & 0x7f } else { hour })?;
    if form & WHOLE_DAY == 0 {
        hours = hours % 12 + if hour & 0x80 != 0 { 12 } else { 0 };
    }
    let century = number(century).filter(|century| (19..=99).contains(century)).unwrap_or(20);
    let (year, month, day) = (century * 100 + number(year)?, number(month)?, number(day)?);
    let (minutes, seconds) = (number(minute)?, number(second)?);
    let fits = (1..=12).contains(&month) && (1..=31).contains(&day) && hours < 24 && minutes < 60 && seconds < 61;
    fits.then(|| ((days(year, month, day) * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// Days from 1970 to a date. Years begin in March here, so that a leap day is the last day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month < 3 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

/// Year, month, day, hour, minute and second of a time.
pub fn date(seconds: i64) -> [i64; 6] {
    let (day, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let mut year = 1970 + day.div_euclid(366);
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= day).unwrap_or(1);
    [year, month, day - days(year, month, 1) + 1, rest / 3600, rest / 60 % 60, rest % 60]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 3, 1) - days(2000, 2, 28), 2);
        assert_eq!(seconds([0x59, 0x58, 0x23, 0x31, 0x12, 0x99, 0x19], WHOLE_DAY), Some(946_684_800 - 61));
        assert_eq!(seconds([5, 4, 0x83, 2, 1, 26, 20], BINARY), seconds([5, 4, 15, 2, 1, 26, 20], BINARY | WHOLE_DAY));
        assert_eq!(seconds([0x0a, 0, 0, 1, 1, 0, 0x20], WHOLE_DAY), None);
        assert_eq!(date(951_782_400), [2000, 2, 29, 0, 0, 0]);
        let time = Time { seconds: -3, at: 5, interrupts: 7 };
        assert_eq!(Time::from_bytes(&time.to_bytes()), Some(time));
    }

    proptest! {
        #[test]
        fn dates_and_back(time in 0i64..7_000_000_000) {
            let [year, month, day, hour, minute, second] = date(time);
            prop_assert_eq!(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second, time);
        }
    }
}
