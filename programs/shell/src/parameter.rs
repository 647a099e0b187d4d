//! Parameters: `$NAME`, `${NAME...}`, and the special parameters of the shell.

use brush_parser::word::{Parameter, ParameterExpr, ParameterTestType, SpecialParameter, SubstringMatchKind};

use crate::expand::{Glyph, glyphs};
use crate::pattern::{Active, Pattern};
use crate::state::{Shell, Stop};

/// The value of a parameter.
enum Value {
    One(Option<String>),
    /// The positional parameters: `$@`, or `$*`.
    All {
        joined: bool,
    },
}

impl Shell {
    fn value(&mut self, parameter: &Parameter, indirect: bool) -> Result<Value, Stop> {
        let value = match parameter {
            Parameter::Positional(0) => Some(self.name.clone()),
            Parameter::Positional(index) => self.positional.get(*index as usize - 1).cloned(),
            Parameter::Named(name) => self.get(name).map(str::to_owned),
            Parameter::Special(special) => match special {
                SpecialParameter::AllPositionalParameters { concatenate } => {
                    return Ok(Value::All { joined: *concatenate });
                }
                SpecialParameter::PositionalParameterCount => Some(self.positional.len().to_string()),
                SpecialParameter::LastExitStatus => Some(self.status.to_string()),
                SpecialParameter::CurrentOptionFlags => Some(self.flags()),
                SpecialParameter::ProcessId => Some(own_id().to_string()),
                SpecialParameter::LastBackgroundProcessId => self.last_background.map(|id| id.to_string()),
                SpecialParameter::ShellName => Some(self.name.clone()),
            },
            _ => return Err(self.unsupported("arrays")),
        };
        match value {
            Some(name) if indirect => Ok(Value::One(self.get(&name).map(str::to_owned))),
            value => Ok(Value::One(value)),
        }
    }

    fn unsupported(&self, what: &str) -> Stop {
        self.error_line(&format!("sh: {what} are not supported"));
        Stop::Abort(2)
    }

    fn flags(&self) -> String {
        let options = self.options;
        let all = [('e', options.errexit), ('f', options.noglob), ('i', options.interactive)];
        let more = [('u', options.nounset), ('x', options.xtrace)];
        all.into_iter().chain(more).filter_map(|(flag, set)| set.then_some(flag)).collect()
    }

    fn all(&self, joined: bool, quoted: bool, out: &mut Vec<Glyph>) {
        if quoted && joined {
            let separator: String = match self.get("IFS") {
                Some(separators) => separators.chars().take(1).collect(),
                None => " ".to_owned(),
            };
            out.extend(glyphs(&self.positional.join(&separator), true));
            return;
        }
        for (index, value) in self.positional.iter().enumerate() {
            if index > 0 {
                out.push(if quoted { Glyph::Break } else { Glyph::Split(' ') });
            }
            if quoted {
                out.push(Glyph::Null);
            }
            out.extend(glyphs(value, quoted));
        }
    }

    /// A parameter as one text, where only one value makes sense.
    fn one(&mut self, parameter: &Parameter, indirect: bool) -> Result<String, Stop> {
        match self.value(parameter, indirect)? {
            Value::One(Some(value)) => Ok(value),
            Value::One(None) if self.options.nounset => Err(self.unbound(parameter)),
            Value::One(None) => Ok(String::new()),
            Value::All { .. } => Ok(self.positional.join(" ")),
        }
    }

    fn unbound(&self, parameter: &Parameter) -> Stop {
        self.complain(&plain(parameter), "it has no value");
        Stop::Abort(1)
    }

    /// The value of a parameter; `None` if it is unset or, depending on the test, empty.
    fn present(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        test: &ParameterTestType,
    ) -> Result<Option<Value>, Stop> {
        let empty = matches!(test, ParameterTestType::UnsetOrNull);
        Ok(match self.value(parameter, indirect)? {
            Value::One(None) => None,
            Value::One(Some(text)) if empty && text.is_empty() => None,
            Value::All { .. } if self.positional.is_empty() => None,
            Value::All { .. } if empty && self.positional.iter().all(String::is_empty) => None,
            value => Some(value),
        })
    }

    fn put_value(&self, value: Value, quoted: bool, out: &mut Vec<Glyph>) {
        match value {
            Value::One(text) => out.extend(glyphs(&text.unwrap_or_default(), quoted)),
            Value::All { joined } => self.all(joined, quoted, out),
        }
    }

    /// Expands a parameter.
    ///
    /// # Errors
    /// It has no value but needs one, or its form is not supported; a message has been printed.
    pub fn parameter(&mut self, parameter: ParameterExpr, quoted: bool, out: &mut Vec<Glyph>) -> Result<(), Stop> {
        use ParameterExpr as Expr;
        let text = match parameter {
            Expr::Parameter { parameter, indirect } => match self.value(&parameter, indirect)? {
                Value::One(None) if self.options.nounset => return Err(self.unbound(&parameter)),
                value => {
                    self.put_value(value, quoted, out);
                    return Ok(());
                }
            },
            Expr::UseDefaultValues { parameter, indirect, test_type, default_value } => {
                return match self.present(&parameter, indirect, &test_type)? {
                    Some(value) => {
                        self.put_value(value, quoted, out);
                        Ok(())
                    }
                    None => self.inner(&default_value.unwrap_or_default(), quoted, out),
                };
            }
            Expr::AssignDefaultValues { parameter, indirect, test_type, default_value } => {
                match self.present(&parameter, indirect, &test_type)? {
                    Some(value) => {
                        self.put_value(value, quoted, out);
                        return Ok(());
                    }
                    None => {
                        let text = self.text(&default_value.unwrap_or_default())?;
                        let Parameter::Named(name) = &parameter else {
                            self.complain(&plain(&parameter), "it cannot be given a value");
                            return Err(Stop::Abort(1));
                        };
                        self.set(name, text.clone())?;
                        text
                    }
                }
            }
            Expr::IndicateErrorIfNullOrUnset { parameter, indirect, test_type, error_message } => {
                match self.present(&parameter, indirect, &test_type)? {
                    Some(value) => {
                        self.put_value(value, quoted, out);
                        return Ok(());
                    }
                    None => {
                        let message = match error_message {
                            Some(message) => self.text(&message)?,
                            None => "it has no value".to_owned(),
                        };
                        self.complain(&plain(&parameter), &message);
                        return Err(Stop::Abort(1));
                    }
                }
            }
            Expr::UseAlternativeValue { parameter, indirect, test_type, alternative_value } => {
                return match self.present(&parameter, indirect, &test_type)? {
                    Some(_) => self.inner(&alternative_value.unwrap_or_default(), quoted, out),
                    None => Ok(()),
                };
            }
            Expr::ParameterLength { parameter, indirect } => match self.value(&parameter, indirect)? {
                Value::All { .. } => self.positional.len().to_string(),
                Value::One(_) => self.one(&parameter, indirect)?.chars().count().to_string(),
            },
            Expr::RemoveSmallestPrefixPattern { parameter, indirect, pattern } => {
                self.without(&parameter, indirect, pattern, |fits, length| {
                    (0..=length).find(|at| fits(0, *at)).map(|at| (0, at))
                })?
            }
            Expr::RemoveLargestPrefixPattern { parameter, indirect, pattern } => {
                self.without(&parameter, indirect, pattern, |fits, length| {
                    (0..=length).rev().find(|at| fits(0, *at)).map(|at| (0, at))
                })?
            }
            Expr::RemoveSmallestSuffixPattern { parameter, indirect, pattern } => {
                self.without(&parameter, indirect, pattern, |fits, length| {
                    (0..=length).rev().find(|at| fits(*at, length)).map(|at| (at, length))
                })?
            }
            Expr::RemoveLargestSuffixPattern { parameter, indirect, pattern } => {
                self.without(&parameter, indirect, pattern, |fits, length| {
                    (0..=length).find(|at| fits(*at, length)).map(|at| (at, length))
                })?
            }
            Expr::Substring { parameter, indirect, offset, length } => {
                let text: Vec<char> = self.one(&parameter, indirect)?.chars().collect();
                let count = text.len() as i64;
                let place = |number: i64| if number < 0 { count.saturating_add(number) } else { number };
                let from = place(self.arithmetic(&offset.value)?).clamp(0, count);
                let to = match length {
                    None => count,
                    Some(length) => match self.arithmetic(&length.value)? {
                        length if length < 0 => count.saturating_add(length),
                        length => from.saturating_add(length),
                    },
                };
                text[from as usize..to.clamp(from, count) as usize].iter().collect()
            }
            Expr::ReplaceSubstring { parameter, indirect, pattern, replacement, match_kind } => {
                let text = self.one(&parameter, indirect)?;
                let pattern = self.pattern(&pattern)?;
                let replacement = self.text(&replacement.unwrap_or_default())?;
                replace(&text, &pattern, &replacement, &match_kind)
            }
            Expr::UppercaseFirstChar { parameter, indirect, pattern } if any(&pattern) => {
                first(&self.one(&parameter, indirect)?, |char| char.to_uppercase().collect())
            }
            Expr::LowercaseFirstChar { parameter, indirect, pattern } if any(&pattern) => {
                first(&self.one(&parameter, indirect)?, |char| char.to_lowercase().collect())
            }
            Expr::UppercasePattern { parameter, indirect, pattern } if any(&pattern) => {
                self.one(&parameter, indirect)?.to_uppercase()
            }
            Expr::LowercasePattern { parameter, indirect, pattern } if any(&pattern) => {
                self.one(&parameter, indirect)?.to_lowercase()
            }
            _ => return Err(self.unsupported("expansions of this kind")),
        };
        out.extend(glyphs(&text, quoted));
        Ok(())
    }

    /// Removes the part of a value that `find` selects from those that match the pattern.
    fn without(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        pattern: Option<String>,
        find: impl FnOnce(&dyn Fn(usize, usize) -> bool, usize) -> Option<(usize, usize)>,
    ) -> Result<String, Stop> {
        let text: Vec<char> = self.one(parameter, indirect)?.chars().collect();
        let pattern = Pattern::new(&self.pattern(&pattern.unwrap_or_default())?);
        let found = find(&|from, to| pattern.fits(&text[from..to]), text.len());
        let (from, to) = found.unwrap_or((0, 0));
        Ok(text[..from].iter().chain(&text[to..]).collect())
    }
}

fn plain(parameter: &Parameter) -> String {
    match parameter {
        Parameter::Named(name) => name.clone(),
        Parameter::Positional(index) => index.to_string(),
        Parameter::Special(special) => special.to_string(),
        other => other.to_string(),
    }
}

/// Whether a pattern for single characters matches every character.
fn any(pattern: &Option<String>) -> bool {
    pattern.as_deref().is_none_or(|pattern| matches!(pattern, "" | "?"))
}

fn first(text: &str, change: impl Fn(char) -> String) -> String {
    let mut chars = text.chars();
    chars.next().map(|char| change(char) + chars.as_str()).unwrap_or_default()
}

/// Replaces matches: the longest one at each position.
fn replace(text: &str, pattern: &[Active], replacement: &str, kind: &SubstringMatchKind) -> String {
    let pattern = Pattern::new(pattern);
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    let mut done = false;
    while at < chars.len() {
        let here = match kind {
            SubstringMatchKind::Prefix => at == 0,
            SubstringMatchKind::Anywhere => true,
            SubstringMatchKind::FirstOccurrence | SubstringMatchKind::Suffix => !done,
        };
        let ends = match kind {
            SubstringMatchKind::Suffix => chars.len()..=chars.len(),
            _ => at + 1..=chars.len(),
        };
        match ends.rev().find(|end| here && pattern.fits(&chars[at..*end])) {
            Some(end) => {
                out.push_str(replacement);
                (at, done) = (end, true);
            }
            None => {
                out.push(chars[at]);
                at += 1;
            }
        }
    }
    out
}

/// `$$`
#[cfg(target_os = "fuchsia")]
fn own_id() -> u64 {
    use zx::Info;
    zx::startup::process_self().koid().unwrap_or_default()
}

/// `$$`
#[cfg(not(target_os = "fuchsia"))]
fn own_id() -> u64 {
    std::process::id().into()
}
