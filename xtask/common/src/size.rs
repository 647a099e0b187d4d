//! Sizes on the command line and in `system.toml`.

/// Parses bytes from `512`, `512M`, `2G`, `65536K`; a plain number is in MiB, as for QEMU.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "K" | "KB" | "KIB" => 10,
        "" | "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        unit => return Err(format!("`{unit}` is no unit: K, M or G")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{digits}` is no whole number"))?;
    number
        .checked_mul(1 << shift)
        .filter(|&size| size > 0)
        .ok_or_else(|| "the size must be over 0 and below 2^64".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512"), Ok(512 << 20));
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        for wrong in ["", "M", "0", "-1", "1.5G", "5T", "99999999999999G"] {
            assert!(parse_size(wrong).is_err(), "{wrong} was taken for a size");
        }
    }
}
