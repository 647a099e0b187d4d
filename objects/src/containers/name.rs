//! Names of tasks and VMOs: up to 31 bytes, for humans.

use core::fmt::Write;

/// A name.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name {
    bytes: [u8; abi::ZX_MAX_NAME_LEN],
}

impl Name {
    /// The bytes up to the first NUL, truncated to 31.
    pub fn new(bytes: &[u8]) -> Self {
        let mut name = Name::default();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        for (to, from) in name.bytes.iter_mut().take(abi::ZX_MAX_NAME_LEN - 1).zip(bytes.iter().take(end)) {
            *to = *from;
        }
        name
    }

    /// The name, padded with NUL bytes.
    pub fn bytes(&self) -> &[u8; abi::ZX_MAX_NAME_LEN] {
        &self.bytes
    }

    /// The longest prefix of the name that is valid UTF-8.
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|&b| b == 0).unwrap_or(self.bytes.len());
        let bytes = self.bytes.get(..end).unwrap_or_default();
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                bytes.get(..error.valid_up_to()).and_then(|b| core::str::from_utf8(b).ok()).unwrap_or_default()
            }
        }
    }
}

/// For humans. A program chooses its name, so characters that would start a line, move a cursor or close the
/// surrounding quotation marks are escaped.
impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for c in self.as_str().chars() {
            match c {
                '\'' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn names_are_shown_so_that_they_do_nothing() {
        for (name, shown) in [
            ("plain name", "plain name"),
            ("a\n[1.0] E init", "a\\n[1.0] E init"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("it's", "it\\'s"),
            ("a\\n", "a\\\\n"),
        ] {
            assert_eq!(Name::new(name.as_bytes()).to_string(), shown);
        }
        assert_eq!(Name::new(b"ab\xffc").to_string(), "ab");
    }
}
