//! `test`, `[` and `[[`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use brush_parser::ast::{BinaryPredicate, ExtendedTestExpr, TestExpr, UnaryPredicate};
use brush_parser::test_command;

use crate::pattern::Pattern;
use crate::state::{Run, Shell, Stop};

/// `[`
pub fn bracket(shell: &mut Shell, words: &[String]) -> Run {
    match words.split_last() {
        Some((last, rest)) if last == "]" => test(shell, rest),
        _ => {
            shell.complain("[", "there is no ] at its end");
            Ok(2)
        }
    }
}

/// `test`
pub fn test(shell: &mut Shell, words: &[String]) -> Run {
    let words = &words[1..];
    if words.is_empty() {
        return Ok(1);
    }
    match test_command::parse(words) {
        Ok(expression) => match shell.holds(&expression) {
            Ok(holds) => Ok(i64::from(!holds)),
            Err(_) => Ok(2),
        },
        Err(_) => {
            shell.complain("test", &format!("{}: this is no condition", words.join(" ")));
            Ok(2)
        }
    }
}

impl Shell {
    fn holds(&self, expression: &TestExpr) -> Result<bool, Stop> {
        Ok(match expression {
            TestExpr::False => false,
            TestExpr::Literal(text) => !text.is_empty(),
            TestExpr::And(left, right) => self.holds(left)? && self.holds(right)?,
            TestExpr::Or(left, right) => self.holds(left)? || self.holds(right)?,
            TestExpr::Not(inner) => !self.holds(inner)?,
            TestExpr::Parenthesized(inner) => self.holds(inner)?,
            TestExpr::UnaryTest(predicate, operand) => self.unary(predicate, operand)?,
            TestExpr::BinaryTest(predicate, left, right) => self.binary(predicate, left, right)?,
        })
    }

    /// `[[ ... ]]`
    ///
    /// # Errors
    /// [`Stop`].
    pub fn extended_test(&mut self, expression: &ExtendedTestExpr) -> Result<bool, Stop> {
        Ok(match expression {
            ExtendedTestExpr::And(left, right) => self.extended_test(left)? && self.extended_test(right)?,
            ExtendedTestExpr::Or(left, right) => self.extended_test(left)? || self.extended_test(right)?,
            ExtendedTestExpr::Not(inner) => !self.extended_test(inner)?,
            ExtendedTestExpr::Parenthesized(inner) => self.extended_test(inner)?,
            ExtendedTestExpr::UnaryTest(predicate, word) => {
                let text = self.text(&word.value)?;
                self.unary(predicate, &text)?
            }
            ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                let left = self.text(&left.value)?;
                match predicate {
                    BinaryPredicate::StringExactlyMatchesPattern
                    | BinaryPredicate::StringDoesNotExactlyMatchPattern => {
                        let pattern = Pattern::new(&self.pattern(&right.value)?);
                        let fits = pattern.fits(&left.chars().collect::<Vec<_>>());
                        fits == matches!(predicate, BinaryPredicate::StringExactlyMatchesPattern)
                    }
                    other => {
                        let right = self.text(&right.value)?;
                        self.binary(other, &left, &right)?
                    }
                }
            }
        })
    }

    fn unary(&self, predicate: &UnaryPredicate, operand: &str) -> Result<bool, Stop> {
        let path = self.path(operand);
        let data = || fs::metadata(&path).ok().filter(|_| !operand.is_empty());
        Ok(match predicate {
            UnaryPredicate::FileExists => data().is_some(),
            UnaryPredicate::FileExistsAndIsDir => data().is_some_and(|data| data.is_dir()),
            UnaryPredicate::FileExistsAndIsRegularFile => data().is_some_and(|data| data.is_file()),
            UnaryPredicate::FileExistsAndIsNotZeroLength => data().is_some_and(|data| data.len() > 0),
            UnaryPredicate::FileExistsAndIsReadable => data().is_some(),
            UnaryPredicate::FileExistsAndIsWritable => {
                data().is_some_and(|data| !data.permissions().readonly()) && !path.starts_with("/boot")
            }
            UnaryPredicate::FileExistsAndIsExecutable => {
                data().is_some_and(|data| data.is_dir() || data.mode() & 0o111 != 0)
            }
            UnaryPredicate::FileExistsAndIsSymlink => {
                fs::symlink_metadata(&path).is_ok_and(|data| data.file_type().is_symlink())
            }
            UnaryPredicate::FdIsOpenTerminal => {
                use std::io::IsTerminal;
                let file = operand.parse().ok().and_then(|fd| self.fds.get(&fd));
                file.is_some_and(|file| file.is_terminal())
            }
            UnaryPredicate::StringHasZeroLength => operand.is_empty(),
            UnaryPredicate::StringHasNonZeroLength => !operand.is_empty(),
            UnaryPredicate::ShellVariableIsSetAndAssigned => self.get(operand).is_some(),
            // File types and owners that do not exist here.
            _ => false,
        })
    }

    fn binary(&self, predicate: &BinaryPredicate, left: &str, right: &str) -> Result<bool, Stop> {
        let number = |text: &str| {
            text.trim().parse::<i64>().map_err(|_| {
                self.complain("test", &format!("{text}: this is no number"));
                Stop::Abort(2)
            })
        };
        let modified = |path: &str| fs::metadata(self.path(path)).and_then(|data| data.modified()).ok();
        let same = |path: &str| fs::metadata(self.path(path)).ok().map(|data| (data.dev(), data.ino()));
        Ok(match predicate {
            BinaryPredicate::StringExactlyMatchesString | BinaryPredicate::StringExactlyMatchesPattern => left == right,
            BinaryPredicate::StringDoesNotExactlyMatchString | BinaryPredicate::StringDoesNotExactlyMatchPattern => {
                left != right
            }
            BinaryPredicate::StringContainsSubstring => left.contains(right),
            BinaryPredicate::LeftSortsBeforeRight => left < right,
            BinaryPredicate::LeftSortsAfterRight => left > right,
            BinaryPredicate::ArithmeticEqualTo => number(left)? == number(right)?,
            BinaryPredicate::ArithmeticNotEqualTo => number(left)? != number(right)?,
            BinaryPredicate::ArithmeticLessThan => number(left)? < number(right)?,
            BinaryPredicate::ArithmeticLessThanOrEqualTo => number(left)? <= number(right)?,
            BinaryPredicate::ArithmeticGreaterThan => number(left)? > number(right)?,
            BinaryPredicate::ArithmeticGreaterThanOrEqualTo => number(left)? >= number(right)?,
            BinaryPredicate::FilesReferToSameDeviceAndInodeNumbers => same(left).is_some() && same(left) == same(right),
            BinaryPredicate::LeftFileIsNewerOrExistsWhenRightDoesNot => modified(left) > modified(right),
            BinaryPredicate::LeftFileIsOlderOrDoesNotExistWhenRightDoes => modified(left) < modified(right),
            BinaryPredicate::StringMatchesRegex => {
                self.complain("[[", "regular expressions are not supported");
                return Err(Stop::Abort(2));
            }
        })
    }
}
