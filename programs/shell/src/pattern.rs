//! Patterns: `*`, `?` and `[...]`, for `case`, for parts of parameters, and for names of files.

use std::fs;
use std::path::Path;

/// A character, and whether it may be special.
pub type Active = (char, bool);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(char),
    One,
    Any,
    Set { negated: bool, ranges: Vec<(char, char)>, classes: Vec<String> },
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern(Vec<Part>);

/// Whether it contains special characters.
pub fn is_pattern(text: &[Active]) -> bool {
    text.iter().any(|(char, active)| *active && matches!(char, '*' | '?' | '['))
}

impl Pattern {
    /// Parses a pattern; an unclosed bracket is literal.
    pub fn new(text: &[Active]) -> Pattern {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((&(char, active), after)) = rest.split_first() {
            rest = after;
            parts.push(match (char, active) {
                ('*', true) => Part::Any,
                ('?', true) => Part::One,
                ('[', true) => match set(after) {
                    Some((set, after)) => {
                        rest = after;
                        set
                    }
                    None => Part::Literal('['),
                },
                _ => Part::Literal(char),
            });
        }
        Pattern(parts)
    }

    /// Whether it matches the whole text.
    pub fn fits(&self, text: &[char]) -> bool {
        // The last `*` takes one more character each time that the rest does not match.
        let (mut part, mut at) = (0, 0);
        let mut again = None;
        loop {
            match self.0.get(part) {
                Some(Part::Any) => {
                    part += 1;
                    again = Some((part, at));
                    continue;
                }
                Some(single) if at < text.len() && single.fits(text[at]) => {
                    (part, at) = (part + 1, at + 1);
                    continue;
                }
                None if at == text.len() => return true,
                _ => {}
            }
            match again {
                Some((after, from)) if from < text.len() => {
                    (part, at) = (after, from + 1);
                    again = Some((after, from + 1));
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn fits(&self, char: char) -> bool {
        match self {
            Part::Literal(literal) => *literal == char,
            Part::One => true,
            Part::Any => false,
            Part::Set { negated, ranges, classes } => {
                let inside = ranges.iter().any(|(first, last)| (*first..=*last).contains(&char))
                    || classes.iter().any(|class| in_class(class, char));
                inside != *negated
            }
        }
    }
}

/// Parses a bracket expression after its `[`, up to the `]`.
fn set(text: &[Active]) -> Option<(Part, &[Active])> {
    let mut rest = text;
    let negated = matches!(rest.first(), Some(('!' | '^', true)));
    if negated {
        rest = &rest[1..];
    }
    let (mut ranges, mut classes) = (Vec::new(), Vec::new());
    let mut first = true;
    loop {
        let (&(char, active), after) = rest.split_first()?;
        rest = after;
        if char == ']' && active && !first {
            return Some((Part::Set { negated, ranges, classes }, rest));
        }
        first = false;
        if char == '[' && matches!(rest.first(), Some((':', true))) {
            let end = rest.windows(2).skip(1).position(|pair| pair[0].0 == ':' && pair[1].0 == ']')? + 1;
            classes.push(rest[1..end].iter().map(|(char, _)| char).collect());
            rest = &rest[end + 2..];
            continue;
        }
        match rest {
            [('-', true), (last, other), after @ ..] if !(*last == ']' && *other) => {
                ranges.push((char, *last));
                rest = after;
            }
            _ => ranges.push((char, char)),
        }
    }
}

fn in_class(class: &str, char: char) -> bool {
    match class {
        "alpha" => char.is_alphabetic(),
        "digit" => char.is_ascii_digit(),
        "alnum" => char.is_alphanumeric(),
        "upper" => char.is_uppercase(),
        "lower" => char.is_lowercase(),
        "space" => char.is_whitespace(),
        "blank" => matches!(char, ' ' | '\t'),
        "punct" => char.is_ascii_punctuation(),
        "xdigit" => char.is_ascii_hexdigit(),
        "cntrl" => char.is_control(),
        "print" => !char.is_control(),
        "graph" => !char.is_control() && !char.is_whitespace(),
        _ => false,
    }
}

/// The names of files that match, sorted; empty if there are none.
pub fn files(pattern: &[Active], cwd: &Path) -> Vec<String> {
    let absolute = matches!(pattern.first(), Some(('/', _)));
    let mut found = vec![if absolute { "/".to_owned() } else { String::new() }];
    let components: Vec<&[Active]> = pattern.split(|(char, _)| *char == '/').filter(|part| !part.is_empty()).collect();
    let only_directories = pattern.last().is_some_and(|(char, _)| *char == '/');
    for (index, component) in components.iter().enumerate() {
        let last = index + 1 == components.len();
        let mut next = Vec::new();
        for place in &found {
            let mut add =
                |name: &str| next.push(if last { format!("{place}{name}") } else { format!("{place}{name}/") });
            if is_pattern(component) {
                matching(component, &cwd.join(place)).iter().for_each(|name| add(name));
            } else {
                let name: String = component.iter().map(|(char, _)| char).collect();
                if fs::symlink_metadata(cwd.join(place).join(&name)).is_ok() {
                    add(&name);
                }
            }
        }
        found = next;
    }
    if only_directories {
        found.retain(|path| cwd.join(path).is_dir());
        found.iter_mut().for_each(|path| path.push('/'));
    }
    found.sort();
    found
}

fn matching(component: &[Active], directory: &Path) -> Vec<String> {
    let pattern = Pattern::new(component);
    let hidden = matches!(component.first(), Some(('.', _)));
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let fits = |name: &String| {
        let chars: Vec<char> = name.chars().collect();
        (hidden || !name.starts_with('.')) && name != "." && name != ".." && pattern.fits(&chars)
    };
    names.filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fits(pattern: &str, text: &str) -> bool {
        let active: Vec<Active> = pattern.chars().map(|char| (char, true)).collect();
        Pattern::new(&active).fits(&text.chars().collect::<Vec<_>>())
    }

    #[test]
    fn what_fits() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("?b?", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]", "d"),
            ("*.rs", "a.b.rs"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("[[:digit:]]*", "7up"),
            ("[x", "[x"),
            ("**a**", "bab"),
        ] {
            assert!(fits(pattern, text), "{pattern} and {text}");
        }
        for (pattern, text) in [("", "a"), ("a", ""), ("a*c", "abcd"), ("?", ""), ("[!a]", "a"), ("[[:digit:]]", "x")] {
            assert!(!fits(pattern, text), "{pattern} and {text}");
        }
        assert!(!Pattern::new(&[('*', false)]).fits(&['x']));
    }

    /// A direct implementation of the rules, without regard to speed.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|skip| slow(rest, &text[skip..])),
            Some((char, rest)) => {
                text.split_first().is_some_and(|(first, more)| (*char == '?' || char == first) && slow(rest, more))
            }
        }
    }

    proptest! {
        #[test]
        fn as_the_rule_says(pattern in "[ab?*]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(fits(&pattern, &text), slow(&chars(&pattern), &chars(&text)));
        }

        #[test]
        fn nothing_panics(pattern in "[\\[\\]!^:a-c*?-]{0,12}", text in "[a-c:\\[\\]-]{0,8}") {
            fits(&pattern, &text);
        }
    }
}
