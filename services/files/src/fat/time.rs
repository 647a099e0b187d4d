//! Times as FAT stores them: dates from 1980 to 2107, interpreted as UTC.

use fatfs::{Date, DateTime, Time, TimeProvider};

use crate::now;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// The clock that `fatfs` uses.
#[derive(Debug)]
pub struct Clock;

impl TimeProvider for Clock {
    fn get_current_date(&self) -> Date {
        self.get_current_date_time().date
    }

    fn get_current_date_time(&self) -> DateTime {
        date_time(now())
    }
}

/// Converts a date and a time to nanoseconds since 1970. Invalid dates overflow into the next month.
pub fn nanos(date: Date, time: Time) -> i64 {
    let (year, month, day) = (i64::from(date.year), i64::from(date.month.clamp(1, 12)), i64::from(date.day));
    // Years that begin in March, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let seconds = i64::from(time.hour) * 3600 + i64::from(time.min) * 60 + i64::from(time.sec);
    (days * DAY + seconds) * NANOS + i64::from(time.millis) * 1_000_000
}

/// Converts to the nearest date and time that FAT can store.
pub fn date_time(nanos: i64) -> DateTime {
    // From 1980 to the end of 2107.
    let seconds = nanos.div_euclid(NANOS).clamp(315_532_800, 4_354_819_199);
    let (days, rest) = (seconds / DAY + 719_468, seconds % DAY);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year_of_era + era * 400, if month < 10 { month + 3 } else { month - 9 });
    let year = if month <= 2 { year + 1 } else { year };
    let millis = nanos.rem_euclid(NANOS) / 1_000_000;
    DateTime {
        date: Date { year: year as u16, month: month as u16, day: day as u16 },
        time: Time {
            hour: (rest / 3600) as u16,
            min: (rest / 60 % 60) as u16,
            sec: (rest % 60) as u16,
            millis: millis as u16,
        },
    }
}

/// Converts an entry's date and time to nanoseconds since 1970.
pub fn of_entry(date: u16, time: u16) -> i64 {
    let date = Date { year: 1980 + (date >> 9), month: date >> 5 & 15, day: date & 31 };
    nanos(date, Time { hour: time >> 11, min: time >> 5 & 63, sec: (time & 31) * 2, millis: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_back() {
        for seconds in [315_532_800, 951_782_400, 951_868_800, 1_709_164_800, 1_795_000_000, 4_107_542_399] {
            let there = date_time(seconds * NANOS);
            assert_eq!(nanos(there.date, there.time), seconds * NANOS, "{there:?}");
        }
        let leap = date_time(951_782_400 * NANOS).date;
        assert_eq!((leap.year, leap.month, leap.day), (2000, 2, 29));
    }
}
