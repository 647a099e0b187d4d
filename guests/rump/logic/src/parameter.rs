//! Parameters of the kernel.

use crate::error::{E2BIG, ENOENT};

/// The number of rump CPUs. Each has a clock, which wakes it a hundred times a second.
pub const CPUS: &[u8] = b"_RUMPUSER_NCPU";
/// The kernel's name for itself.
pub const HOST_NAME: &[u8] = b"_RUMPUSER_HOSTNAME";
/// How much memory the kernel takes.
pub const MEMORY: &[u8] = b"RUMP_MEMLIMIT";
/// The environment variable with the number of rump CPUs.
pub const CPUS_VARIABLE: &[u8] = b"RUMP_NCPU";
/// The largest number of rump CPUs.
const MAX_CPUS: u64 = 32;

/// The name of an environment variable: letters, digits and underscores. Other names have no value.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A number of bytes: digits, and one of the letters k, m, g in either case for a power of 1024.
pub fn bytes(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 10),
        (b'm' | b'M', digits) => (digits, 20),
        (b'g' | b'G', digits) => (digits, 30),
        _ => (text, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

/// A decimal number.
pub fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// The number of rump CPUs: what the environment says, if it is a number from 1 to 32, or one.
pub fn cpus(variable: Option<&[u8]>) -> u64 {
    variable.and_then(number).filter(|count| (1..=MAX_CPUS).contains(count)).unwrap_or(1)
}

/// How much memory the kernel may take if nothing else is said: three quarters of what its job may still use, because
/// the program around it, its stacks and its files need some, too. `u64::MAX` is no limit.
pub fn share_of_job(limit: u64, used: u64) -> Option<u64> {
    let rest = limit.saturating_sub(used);
    (limit != u64::MAX).then_some(rest - rest / 4)
}

/// The digits of a number, at the end of the array.
pub fn digits(mut number: u64, to: &mut [u8; 20]) -> &[u8] {
    let mut start = to.len();
    loop {
        start -= 1;
        to[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            return &to[start..];
        }
    }
}

/// Copies a value with a terminating zero into the kernel's buffer.
///
/// # Errors
/// `ENOENT`: there is no value. `E2BIG`: it does not fit.
pub fn answer(value: Option<&[u8]>, to: &mut [u8]) -> Result<(), i32> {
    let value = value.ok_or(ENOENT)?;
    let to = to.get_mut(..=value.len()).ok_or(E2BIG)?;
    let (text, end) = to.split_at_mut(value.len());
    text.copy_from_slice(value);
    end.fill(0);
    Ok(())
}
