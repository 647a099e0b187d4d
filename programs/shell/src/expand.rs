//! Expands the words of a command into its arguments.
//!
//! 1. Braces: one word may become several.
//! 2. Pieces: variables, command substitutions, arithmetic, quotes. Each character records whether it was quoted.
//! 3. Fields: the results of expansions are split at separators.
//! 4. Patterns are replaced by file names.

use brush_parser::ParserOptions;
use brush_parser::ast::Word;
use brush_parser::word::{
    self, BraceExpressionMember, BraceExpressionOrText, Parameter, ParameterExpr, SpecialParameter, TildeExpr,
    WordPiece,
};

use crate::pattern::{self, Active};
use crate::state::{Shell, Stop};

/// A part of a word during expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyph {
    /// A character that stands for itself.
    Quoted(char),
    /// A character of the word as written: it can be part of a pattern.
    Plain(char),
    /// A character from an expansion: it can be part of a pattern, or separate fields.
    Split(char),
    /// The boundary between two fields: between the values of `"$@"`.
    Break,
    /// Empty quotes: they create an empty field.
    Null,
}

/// Options for parsing words.
pub fn parser_options() -> ParserOptions {
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

/// Converts characters, quoted or not.
pub fn glyphs(text: &str, quoted: bool) -> impl Iterator<Item = Glyph> {
    text.chars().map(move |char| if quoted { Glyph::Quoted(char) } else { Glyph::Split(char) })
}

impl Shell {
    /// Expands words into fields.
    ///
    /// # Errors
    /// A word cannot be expanded; a message has been printed.
    pub fn fields<'a>(&mut self, words: impl IntoIterator<Item = &'a Word>) -> Result<Vec<String>, Stop> {
        let mut fields = Vec::new();
        for word in words {
            for text in self.braces(&word.value)? {
                let glyphs = self.word(&text)?;
                for field in cut(&glyphs, self.get("IFS").unwrap_or(" \t\n")) {
                    if !self.options.noglob && pattern::is_pattern(&field) {
                        let files = pattern::files(&field, &self.cwd);
                        if !files.is_empty() {
                            fields.extend(files);
                            continue;
                        }
                    }
                    fields.push(field.into_iter().map(|(char, _)| char).collect());
                }
            }
        }
        Ok(fields)
    }

    /// A word as one text, without field splitting and file names.
    ///
    /// # Errors
    /// The word cannot be expanded; a message has been printed.
    pub fn text(&mut self, word: &str) -> Result<String, Stop> {
        Ok(active(&self.word(word)?).into_iter().map(|(char, _)| char).collect())
    }

    /// A word as a pattern.
    ///
    /// # Errors
    /// The word cannot be expanded; a message has been printed.
    pub fn pattern(&mut self, word: &str) -> Result<Vec<Active>, Stop> {
        Ok(active(&self.word(word)?))
    }

    /// The text of a here-document, in which quotes are not special.
    ///
    /// # Errors
    /// It cannot be expanded; a message has been printed.
    pub fn here_document(&mut self, text: &str) -> Result<String, Stop> {
        let pieces = word::parse_heredoc(text, &parser_options()).map_err(|error| self.bad_word(&error))?;
        let mut out = Vec::new();
        for piece in pieces {
            self.piece(piece.piece, true, &mut out)?;
        }
        Ok(active(&out).into_iter().map(|(char, _)| char).collect())
    }

    fn bad_word(&self, error: &dyn std::fmt::Display) -> Stop {
        self.error_line(&format!("sh: {error}"));
        Stop::Abort(2)
    }

    /// Expands a word into its glyphs.
    ///
    /// # Errors
    /// It cannot be expanded; a message has been printed.
    pub fn word(&mut self, word: &str) -> Result<Vec<Glyph>, Stop> {
        let pieces = word::parse(word, &parser_options()).map_err(|error| self.bad_word(&error))?;
        let mut out = Vec::new();
        for piece in pieces {
            self.piece(piece.piece, false, &mut out)?;
        }
        Ok(out)
    }

    /// Expands a text from the braces of a parameter, with the quotes around them.
    ///
    /// # Errors
    /// It cannot be expanded; a message has been printed.
    pub fn inner(&mut self, text: &str, quoted: bool, out: &mut Vec<Glyph>) -> Result<(), Stop> {
        let pieces = word::parse(text, &parser_options()).map_err(|error| self.bad_word(&error))?;
        let before = out.len();
        for piece in pieces {
            self.piece(piece.piece, quoted, out)?;
        }
        // Its characters now count as the result of an expansion.
        for glyph in &mut out[before..] {
            if let Glyph::Plain(char) = *glyph {
                *glyph = Glyph::Split(char);
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: WordPiece, quoted: bool, out: &mut Vec<Glyph>) -> Result<(), Stop> {
        match piece {
            WordPiece::Text(text) if quoted => out.extend(glyphs(&text, true)),
            WordPiece::Text(text) => out.extend(text.chars().map(Glyph::Plain)),
            WordPiece::SingleQuotedText(text) => {
                out.push(Glyph::Null);
                out.extend(glyphs(&text, true));
            }
            WordPiece::AnsiCQuotedText(text) => {
                out.push(Glyph::Null);
                out.extend(glyphs(&crate::escape::all(&text), true));
            }
            WordPiece::DoubleQuotedSequence(pieces) | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                // `"$@"` without any values gives no field.
                let all =
                    |piece: &WordPiece| matches!(piece, WordPiece::ParameterExpansion(parameter) if is_all(parameter));
                if !(self.positional.is_empty() && pieces.len() == 1 && all(&pieces[0].piece)) {
                    out.push(Glyph::Null);
                }
                for piece in pieces {
                    self.piece(piece.piece, true, out)?;
                }
            }
            WordPiece::TildeExpansion(tilde) => {
                let place = match tilde {
                    TildeExpr::Home => self.get("HOME").unwrap_or("/").to_owned(),
                    TildeExpr::WorkingDir => self.cwd.to_string_lossy().into_owned(),
                    TildeExpr::OldWorkingDir => self.get("OLDPWD").unwrap_or("~-").to_owned(),
                    TildeExpr::UserHome(user) => format!("~{user}"),
                    _ => "~".to_owned(),
                };
                out.extend(glyphs(&place, true));
            }
            WordPiece::ParameterExpansion(parameter) => self.parameter(parameter, quoted, out)?,
            WordPiece::CommandSubstitution(text) => {
                let text = self.substitution(&text)?;
                out.extend(glyphs(&text, quoted));
            }
            WordPiece::BackquotedCommandSubstitution(text) => {
                let text = self.substitution(&unescaped(&text, "\\`$"))?;
                out.extend(glyphs(&text, quoted));
            }
            WordPiece::EscapeSequence(text) => {
                let text = text.strip_prefix('\\').unwrap_or(&text);
                if text != "\n" {
                    out.extend(glyphs(text, true));
                }
            }
            WordPiece::ArithmeticExpression(expression) => {
                let number = self.arithmetic(&expression.value)?;
                out.extend(glyphs(&number.to_string(), quoted));
            }
        }
        Ok(())
    }

    fn braces(&mut self, word: &str) -> Result<Vec<String>, Stop> {
        if !word.contains('{') {
            return Ok(vec![word.to_owned()]);
        }
        match word::parse_brace_expansions(word, &parser_options()) {
            Ok(Some(parts)) => Ok(alternatives(&parts)),
            _ => Ok(vec![word.to_owned()]),
        }
    }
}

/// Whether this is `$@`.
fn is_all(parameter: &ParameterExpr) -> bool {
    let special = |parameter: &Parameter| {
        matches!(parameter, Parameter::Special(SpecialParameter::AllPositionalParameters { concatenate: false }))
    };
    matches!(parameter, ParameterExpr::Parameter { parameter, .. } if special(parameter))
}

/// Maximum number of words that brace expansion may create from one.
const ALTERNATIVES: usize = 100_000;

fn alternatives(parts: &[BraceExpressionOrText]) -> Vec<String> {
    let mut words = vec![String::new()];
    for part in parts {
        let ends = match part {
            BraceExpressionOrText::Text(text) => vec![text.clone()],
            BraceExpressionOrText::Expr(members) => members.iter().flat_map(member).take(ALTERNATIVES).collect(),
        };
        let both = words.iter().flat_map(|word| ends.iter().map(move |end| format!("{word}{end}")));
        words = both.take(ALTERNATIVES).collect();
    }
    words
}

fn member(member: &BraceExpressionMember) -> Vec<String> {
    let steps = |start: i64, end: i64, step: i64| {
        let step = step.unsigned_abs().max(1);
        let count = (start.abs_diff(end) / step).min(ALTERNATIVES as u64);
        (0..=count).map(move |index| {
            let far = index.saturating_mul(step) as i64;
            if start <= end { start.wrapping_add(far) } else { start.wrapping_sub(far) }
        })
    };
    match member {
        BraceExpressionMember::NumberSequence { start, end, increment } => {
            steps(*start, *end, *increment).map(|number| number.to_string()).collect()
        }
        BraceExpressionMember::CharSequence { start, end, increment } => {
            let (start, end) = (i64::from(u32::from(*start)), i64::from(u32::from(*end)));
            let char = |code| char::from_u32(u32::try_from(code).ok()?);
            steps(start, end, *increment).filter_map(char).map(String::from).collect()
        }
        BraceExpressionMember::Child(parts) => alternatives(parts),
    }
}

/// Removes the backslash before these characters.
fn unescaped(text: &str, which: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match chars.peek() {
            Some(next) if char == '\\' && which.contains(*next) => out.extend(chars.next()),
            _ => out.push(char),
        }
    }
    out
}

/// Converts glyphs to characters and whether they may be part of a pattern.
fn active(glyphs: &[Glyph]) -> Vec<Active> {
    let char = |glyph: &Glyph| match glyph {
        Glyph::Quoted(char) => Some((*char, false)),
        Glyph::Plain(char) | Glyph::Split(char) => Some((*char, true)),
        Glyph::Break => Some((' ', false)),
        Glyph::Null => None,
    };
    glyphs.iter().filter_map(char).collect()
}

/// Splits at separators that came from expansions.
fn cut(glyphs: &[Glyph], separators: &str) -> Vec<Vec<Active>> {
    let mut fields = Vec::new();
    let mut field: Option<Vec<Active>> = None;
    // A separator other than a blank belongs to the field before it, even after blanks.
    let mut blank_before = false;
    for glyph in glyphs {
        match glyph {
            Glyph::Null => _ = field.get_or_insert_default(),
            Glyph::Break => fields.push(field.take().unwrap_or_default()),
            Glyph::Quoted(char) => field.get_or_insert_default().push((*char, false)),
            Glyph::Split(char) if separators.contains(*char) => {
                let blank = matches!(char, ' ' | '\t' | '\n');
                if field.is_some() || !blank && !blank_before {
                    fields.push(field.take().unwrap_or_default());
                    blank_before = blank;
                } else if !blank {
                    blank_before = false;
                }
                continue;
            }
            Glyph::Plain(char) | Glyph::Split(char) => field.get_or_insert_default().push((*char, true)),
        }
        blank_before = false;
    }
    fields.extend(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, separators: &str) -> Vec<String> {
        let glyphs: Vec<Glyph> = glyphs(text, false).collect();
        cut(&glyphs, separators).into_iter().map(|field| field.into_iter().map(|(char, _)| char).collect()).collect()
    }

    #[test]
    fn fields_are_cut_at_separators() {
        assert_eq!(split("  a  b ", " \t\n"), ["a", "b"]);
        assert_eq!(split("a::b:", ":"), ["a", "", "b"]);
        assert_eq!(split(":a", ":"), ["", "a"]);
        assert_eq!(split(" a : b ", " :"), ["a", "b"]);
        assert_eq!(split("a : : b", " :"), ["a", "", "b"]);
        assert!(split("  ", " ").is_empty());
        assert_eq!(split("a b", ""), ["a b"]);
    }
}
