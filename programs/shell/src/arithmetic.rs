//! `$((...))`: arithmetic on 64-bit integers, which wrap around.

use brush_parser::arithmetic;
use brush_parser::ast::{ArithmeticExpr, ArithmeticTarget, BinaryOperator, UnaryAssignmentOperator, UnaryOperator};

use crate::state::{Shell, Stop};

impl Shell {
    /// Evaluates an expression after expanding its parameters.
    ///
    /// # Errors
    /// It cannot be parsed, or it divides by zero; a message has been printed.
    pub fn arithmetic(&mut self, text: &str) -> Result<i64, Stop> {
        let text = self.here_document(text)?;
        self.arithmetic_text(text.trim())
    }

    fn arithmetic_text(&mut self, text: &str) -> Result<i64, Stop> {
        if text.is_empty() {
            return Ok(0);
        }
        match arithmetic::parse(text) {
            Ok(expression) => self.evaluate(&expression),
            Err(_) => Err(self.wrong(text, "this cannot be calculated")),
        }
    }

    fn wrong(&self, what: &str, problem: &str) -> Stop {
        self.complain(what, problem);
        Stop::Abort(1)
    }

    fn number(&mut self, target: &ArithmeticTarget) -> Result<i64, Stop> {
        let ArithmeticTarget::Variable(name) = target else { return Err(self.wrong("[", "there are no arrays")) };
        let Some(text) = self.get(name).map(|text| text.trim().to_owned()) else { return Ok(0) };
        match text.parse() {
            Ok(number) => Ok(number),
            Err(_) if self.depth >= crate::state::DEPTH => Err(self.wrong(name, "it refers to itself")),
            Err(_) => {
                self.depth += 1;
                let number = self.arithmetic_text(&text);
                self.depth -= 1;
                number
            }
        }
    }

    fn assign(&mut self, target: &ArithmeticTarget, value: i64) -> Result<i64, Stop> {
        let ArithmeticTarget::Variable(name) = target else { return Err(self.wrong("[", "there are no arrays")) };
        self.set(name, value.to_string())?;
        Ok(value)
    }

    fn evaluate(&mut self, expression: &ArithmeticExpr) -> Result<i64, Stop> {
        Ok(match expression {
            ArithmeticExpr::Literal(number) => *number,
            ArithmeticExpr::Reference(target) => self.number(target)?,
            ArithmeticExpr::UnaryOp(operator, operand) => {
                let value = self.evaluate(operand)?;
                match operator {
                    UnaryOperator::UnaryPlus => value,
                    UnaryOperator::UnaryMinus => value.wrapping_neg(),
                    UnaryOperator::BitwiseNot => !value,
                    UnaryOperator::LogicalNot => i64::from(value == 0),
                }
            }
            ArithmeticExpr::BinaryOp(BinaryOperator::LogicalAnd, left, right) => {
                i64::from(self.evaluate(left)? != 0 && self.evaluate(right)? != 0)
            }
            ArithmeticExpr::BinaryOp(BinaryOperator::LogicalOr, left, right) => {
                i64::from(self.evaluate(left)? != 0 || self.evaluate(right)? != 0)
            }
            ArithmeticExpr::BinaryOp(operator, left, right) => {
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                self.calculate(operator, left, right)?
            }
            ArithmeticExpr::Conditional(condition, yes, no) => {
                if self.evaluate(condition)? != 0 {
                    self.evaluate(yes)?
                } else {
                    self.evaluate(no)?
                }
            }
            ArithmeticExpr::Assignment(target, value) => {
                let value = self.evaluate(value)?;
                self.assign(target, value)?
            }
            ArithmeticExpr::BinaryAssignment(operator, target, value) => {
                let (left, right) = (self.number(target)?, self.evaluate(value)?);
                let value = self.calculate(operator, left, right)?;
                self.assign(target, value)?
            }
            ArithmeticExpr::UnaryAssignment(operator, target) => {
                let before = self.number(target)?;
                let (after, value) = match operator {
                    UnaryAssignmentOperator::PrefixIncrement => (before.wrapping_add(1), before.wrapping_add(1)),
                    UnaryAssignmentOperator::PrefixDecrement => (before.wrapping_sub(1), before.wrapping_sub(1)),
                    UnaryAssignmentOperator::PostfixIncrement => (before.wrapping_add(1), before),
                    UnaryAssignmentOperator::PostfixDecrement => (before.wrapping_sub(1), before),
                };
                self.assign(target, after)?;
                value
            }
        })
    }

    fn calculate(&self, operator: &BinaryOperator, left: i64, right: i64) -> Result<i64, Stop> {
        Ok(match operator {
            BinaryOperator::Power => {
                let power =
                    u32::try_from(right).map_err(|_| self.wrong("**", "the exponent is negative or too large"))?;
                left.wrapping_pow(power)
            }
            BinaryOperator::Multiply => left.wrapping_mul(right),
            BinaryOperator::Divide | BinaryOperator::Modulo if right == 0 => {
                return Err(self.wrong("/", "division by zero"));
            }
            BinaryOperator::Divide => left.wrapping_div(right),
            BinaryOperator::Modulo => left.wrapping_rem(right),
            BinaryOperator::Comma => right,
            BinaryOperator::Add => left.wrapping_add(right),
            BinaryOperator::Subtract => left.wrapping_sub(right),
            BinaryOperator::ShiftLeft => left.wrapping_shl(right as u32),
            BinaryOperator::ShiftRight => left.wrapping_shr(right as u32),
            BinaryOperator::LessThan => i64::from(left < right),
            BinaryOperator::LessThanOrEqualTo => i64::from(left <= right),
            BinaryOperator::GreaterThan => i64::from(left > right),
            BinaryOperator::GreaterThanOrEqualTo => i64::from(left >= right),
            BinaryOperator::Equals => i64::from(left == right),
            BinaryOperator::NotEquals => i64::from(left != right),
            BinaryOperator::BitwiseAnd => left & right,
            BinaryOperator::BitwiseXor => left ^ right,
            BinaryOperator::BitwiseOr => left | right,
            // `evaluate` has already handled these two with short-circuit evaluation.
            BinaryOperator::LogicalAnd => i64::from(left != 0 && right != 0),
            BinaryOperator::LogicalOr => i64::from(left != 0 || right != 0),
        })
    }
}
