//! Pages of the tree with generated parts. A part is between `<!-- made: NAME -->` and `<!-- end of what is made -->`;
//! the rest is written by hand.

use std::fs;

use anyhow::{Context, Result};

use crate::paths::Paths;

const END: &str = "<!-- end of what is made -->";

/// A page that is being updated.
#[derive(Clone, Debug)]
pub struct Page {
    name: &'static str,
    text: String,
}

impl Page {
    /// Reads a page of the tree.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(paths: &Paths, name: &'static str) -> Result<Page> {
        let text = fs::read_to_string(paths.workspace.join(name)).with_context(|| format!("cannot read {name}"))?;
        Ok(Page { name, text })
    }

    /// The text before a part, the part, and the text after it, with the marks around the part.
    fn cut(&self, part: &str) -> Result<(&str, &str, &str)> {
        let start = format!("<!-- made: {part} -->\n");
        let cut = || {
            let begin = self.text.find(&start)? + start.len();
            let end = begin + self.text[begin..].find(END)?;
            Some((&self.text[..begin], &self.text[begin..end], &self.text[end..]))
        };
        cut().with_context(|| format!("{} has no part from `{}` to `{END}`", self.name, start.trim()))
    }

    /// The text before a part.
    ///
    /// # Errors
    /// The page does not say where the part belongs.
    pub fn before(&self, part: &str) -> Result<&str> {
        Ok(self.cut(part)?.0)
    }

    /// A part as it is.
    ///
    /// # Errors
    /// The page does not say where the part belongs.
    pub fn part(&self, part: &str) -> Result<&str> {
        Ok(self.cut(part)?.1)
    }

    /// Replaces a part.
    ///
    /// # Errors
    /// The page does not say where the part belongs.
    pub fn set(&mut self, part: &str, text: &str) -> Result<()> {
        let (before, _, after) = self.cut(part)?;
        self.text = format!("{before}{text}{after}");
        Ok(())
    }

    /// The page's name and its text.
    pub fn finish(self) -> (&'static str, String) {
        (self.name, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_made_is_replaced() {
        let text = format!("a\n<!-- made: x -->\nold\n{END}\nb\n<!-- made: y -->\n{END}\n");
        let mut page = Page { name: "page", text };
        assert_eq!(page.part("x").expect("a part"), "old\n");
        page.set("x", "new\n").expect("a part");
        page.set("y", "more\n").expect("a part");
        assert!(page.set("z", "").is_err());
        let expected = format!("a\n<!-- made: x -->\nnew\n{END}\nb\n<!-- made: y -->\nmore\n{END}\n");
        assert_eq!(page.finish(), ("page", expected));
    }
}
