//! Names of tasks and VMOs: up to 31 bytes, for people to read.

/// A name.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name {
    bytes: [u8; abi::ZX_MAX_NAME_LEN],
}

impl Name {
    /// The name up to the first NUL, cut to 31 bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut name = Name::default();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        for (to, from) in name.bytes.iter_mut().take(abi::ZX_MAX_NAME_LEN - 1).zip(bytes.iter().take(end)) {
            *to = *from;
        }
        name
    }

    /// The name with its NUL bytes.
    pub fn bytes(&self) -> &[u8; abi::ZX_MAX_NAME_LEN] {
        &self.bytes
    }

    /// The name as text, as far as it is text.
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

impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(self.as_str(), f)
    }
}
