//! Messages of the system on the host's standard error.

/// Replaces characters that would act on a terminal or end the line, because names and reasons may come from programs.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\t' { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(visible("a\nb\x1b[31m\tc\u{9b}"), "a\\nb\\u{1b}[31m\tc\\u{9b}");
    }
}
