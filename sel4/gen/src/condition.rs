//! Conditions on methods and system calls.
//!
//! 5.0.0 writes them as C preprocessor expressions in an attribute (`defined(CONFIG_VTX)`, `CONFIG_MAX_NUM_NODES > 1`),
//! 13 and later as a tree of elements (`<condition><not><config var="CONFIG_KERNEL_MCS"/></not></condition>`). Both
//! become one [`Condition`], which is then evaluated for a configuration.

use roxmltree::Node;

use crate::config::{Config, number};

/// The condition under which something exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    True,
    /// The macro is defined.
    Defined(String),
    /// The macro's number is above this one.
    Above(String, i64),
    /// The condition does not hold.
    Not(Box<Condition>),
    /// All conditions hold.
    All(Vec<Condition>),
    /// At least one condition holds.
    Any(Vec<Condition>),
}

impl Condition {
    /// Whether it holds in this configuration.
    pub fn holds(&self, config: &Config) -> bool {
        match self {
            Condition::True => true,
            Condition::Defined(name) => config.is_set(name),
            Condition::Above(name, limit) => config.number(name).is_some_and(|n| n > *limit),
            Condition::Not(inner) => !inner.holds(config),
            Condition::All(parts) => parts.iter().all(|part| part.holds(config)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(config)),
        }
    }

    /// Parses a C expression made of `defined X`, `defined(X)`, `X > n`, `!`, `&&`, `||` and parentheses.
    pub fn from_c(text: &str) -> Result<Self, &'static str> {
        let tokens = tokens(text)?;
        if tokens.is_empty() {
            return Ok(Condition::True);
        }
        let mut parser = Parser { tokens: &tokens };
        let condition = parser.any()?;
        if parser.tokens.is_empty() { Ok(condition) } else { Err("something follows the end of the condition") }
    }

    /// Reads the condition of an element, which may have a `<condition>` child or a `condition` attribute.
    pub fn of(element: Node<'_, '_>) -> Result<Self, &'static str> {
        if let Some(text) = element.attribute("condition") {
            return Self::from_c(text);
        }
        match element.children().find(|child| child.has_tag_name("condition")) {
            Some(tree) => Self::all_children(tree),
            None => Ok(Condition::True),
        }
    }

    fn all_children(element: Node<'_, '_>) -> Result<Self, &'static str> {
        let mut parts =
            element.children().filter(Node::is_element).map(Self::from_element).collect::<Result<Vec<_>, _>>()?;
        Ok(match parts.len() {
            0 => Condition::True,
            1 => parts.remove(0),
            _ => Condition::All(parts),
        })
    }

    fn from_element(element: Node<'_, '_>) -> Result<Self, &'static str> {
        let parts =
            || element.children().filter(Node::is_element).map(Self::from_element).collect::<Result<Vec<_>, _>>();
        match element.tag_name().name() {
            "config" => {
                let name = element.attribute("var").ok_or("<config> without `var`")?;
                Ok(Condition::Defined(name.strip_prefix("CONFIG_").ok_or("a macro without CONFIG_")?.to_owned()))
            }
            "not" => Ok(Condition::Not(Box::new(Self::all_children(element)?))),
            "and" => Ok(Condition::All(parts()?)),
            "or" => Ok(Condition::Any(parts()?)),
            _ => Err("an unknown element in a condition"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

fn tokens(text: &str) -> Result<Vec<Token>, &'static str> {
    let mut rest = text.trim_start();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            out.push(Token::Word(rest[..end].to_owned()));
            rest = rest[end..].trim_start();
            continue;
        }
        let sign = ["&&", "||", "!", "(", ")", ">"].into_iter().find(|sign| rest.starts_with(sign));
        let sign = sign.ok_or("an unknown sign")?;
        out.push(Token::Sign(sign));
        rest = rest[sign.len()..].trim_start();
    }
    Ok(out)
}

struct Parser<'a> {
    tokens: &'a [Token],
}

impl Parser<'_> {
    fn sign(&mut self, sign: &'static str) -> bool {
        match self.tokens.split_first() {
            Some((Token::Sign(first), rest)) if *first == sign => {
                self.tokens = rest;
                true
            }
            _ => false,
        }
    }

    fn word(&mut self) -> Result<String, &'static str> {
        match self.tokens.split_first() {
            Some((Token::Word(word), rest)) => {
                self.tokens = rest;
                Ok(word.clone())
            }
            _ => Err("a name or number is missing"),
        }
    }

    fn any(&mut self) -> Result<Condition, &'static str> {
        let first = self.all()?;
        let mut parts = vec![first];
        while self.sign("||") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Any(parts) })
    }

    fn all(&mut self) -> Result<Condition, &'static str> {
        let mut parts = vec![self.one()?];
        while self.sign("&&") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) })
    }

    fn one(&mut self) -> Result<Condition, &'static str> {
        if self.sign("!") {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.sign("(") {
            let inner = self.any()?;
            return if self.sign(")") { Ok(inner) } else { Err("a parenthesis is not closed") };
        }
        let word = self.word()?;
        if word == "defined" {
            let open = self.sign("(");
            let name = self.macro_name()?;
            return if !open || self.sign(")") {
                Ok(Condition::Defined(name))
            } else {
                Err("a parenthesis is not closed")
            };
        }
        let name = word.strip_prefix("CONFIG_").ok_or("a macro without CONFIG_")?.to_owned();
        if self.sign(">") {
            let limit = number(&self.word()?).ok_or("a number is missing")?;
            return Ok(Condition::Above(name, limit));
        }
        Ok(Condition::Above(name, 0))
    }

    fn macro_name(&mut self) -> Result<String, &'static str> {
        Ok(self.word()?.strip_prefix("CONFIG_").ok_or("a macro without CONFIG_")?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::parse("#define CONFIG_A 1\n#define CONFIG_N 2\n").unwrap()
    }

    #[test]
    fn c_expressions() {
        for (text, holds) in [
            ("", true),
            ("defined(CONFIG_A)", true),
            ("defined CONFIG_A", true),
            ("defined(CONFIG_B)", false),
            ("!defined(CONFIG_B) && CONFIG_N > 1", true),
            ("CONFIG_N > 2", false),
            ("CONFIG_N > 2 || (defined(CONFIG_A) && !defined(CONFIG_B))", true),
        ] {
            assert_eq!(Condition::from_c(text).unwrap().holds(&config()), holds, "{text}");
        }
        for text in ["defined(CONFIG_A", "defined(A)", "CONFIG_A +", "CONFIG_A CONFIG_B", "&&"] {
            assert!(Condition::from_c(text).is_err(), "{text}");
        }
    }

    #[test]
    fn trees() {
        for (text, holds) in [
            ("<m/>", true),
            ("<m><condition/></m>", true),
            (r#"<m><condition><config var="CONFIG_A"/></condition></m>"#, true),
            (r#"<m><condition><not><config var="CONFIG_A"/></not></condition></m>"#, false),
            (
                r#"<m><condition><and><config var="CONFIG_A"/><not><config var="CONFIG_B"/></not></and></condition></m>"#,
                true,
            ),
            (r#"<m><condition><or><config var="CONFIG_B"/><config var="CONFIG_A"/></or></condition></m>"#, true),
            (r#"<m condition="defined(CONFIG_B)"/>"#, false),
        ] {
            let document = roxmltree::Document::parse(text).unwrap();
            assert_eq!(Condition::of(document.root_element()).unwrap().holds(&config()), holds, "{text}");
        }
        let odd = roxmltree::Document::parse("<m><condition><xor/></condition></m>").unwrap();
        assert!(Condition::of(odd.root_element()).is_err());
    }
}
