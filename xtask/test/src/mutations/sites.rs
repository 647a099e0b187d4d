//! Finds places in the source for small faults, in its syntax tree.
//!
//! Every fault contains both the faulty and the right code, and a number decides which one runs: an expression becomes
//! `(if fault(7) { changed } else { original })`. So one build contains all of them.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use anyhow::{Context as _, Result};
use proc_macro2::Span;
use serde::{Deserialize, Serialize};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ReturnType, Stmt, UnOp};

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A comparison is shifted or negated.
    Relation,
    /// A condition is negated, or one part of it is left out.
    Condition,
    /// Plus for minus, or off by one.
    Arithmetic,
    /// A statement is left out.
    Statement,
    /// Another status.
    Status,
    /// A right is not checked.
    Rights,
    /// A signal is left out.
    Signals,
    /// A function returns at once.
    Return,
}

/// How the changed code replaces the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An expression replaces another.
    Expression(String),
    /// The statement is left out.
    Omit,
    /// Code is inserted before it.
    Insert(String),
}

/// A place where a fault can be put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Byte range of the file that it replaces.
    pub range: Range<usize>,
    /// Line, from 1.
    pub line: usize,
    /// The function that contains it.
    pub function: String,
    /// Its kind.
    pub kind: Kind,
    /// The change.
    pub change: Change,
    /// The original.
    pub original: String,
}

impl Site {
    /// Describes the change in one line.
    pub fn describe(&self) -> String {
        let short = |text: &str| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if text.chars().count() <= 90 { text } else { text.chars().take(87).collect::<String>() + "..." }
        };
        match &self.change {
            Change::Expression(changed) => format!("`{}` becomes `{}`", short(&self.original), short(changed)),
            Change::Omit => format!("`{}` is left out", short(&self.original)),
            Change::Insert(text) => format!("`{}` comes first", short(text)),
        }
    }

    /// The code with both versions; `active` is the condition for the fault.
    pub fn switched(&self, active: &str) -> String {
        match &self.change {
            Change::Expression(changed) => format!("(if {active} {{ {changed} }} else {{ {} }})", self.original),
            Change::Omit => format!("if !{active} {{ {} }}", self.original),
            Change::Insert(text) => format!("if {active} {{ {text} }} "),
        }
    }

    fn overlaps(&self, other: &Site) -> bool {
        let (a, b) = (&self.range, &other.range);
        a.start < b.end && b.start < a.end || a == b
    }
}

/// Finds all places in a file.
///
/// # Errors
/// It is not valid Rust.
pub fn find(text: &str) -> Result<Vec<Site>> {
    let file = syn::parse_file(text).context("cannot be parsed")?;
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut finder = Finder { text, starts, functions: Vec::new(), found: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.found)
}

/// At most `count` of the places, without overlaps: a deterministic choice with all kinds in equal parts.
pub fn choose(file: &str, sites: &[Site], count: usize) -> Vec<Site> {
    let mut kinds: BTreeMap<Kind, Vec<(u64, &Site)>> = BTreeMap::new();
    let mut seen: BTreeMap<(Kind, &str, &str), usize> = BTreeMap::new();
    for site in sites {
        let twin = seen.entry((site.kind, &site.function, &site.original)).or_default();
        *twin += 1;
        let mut hasher = DefaultHasher::new();
        (file, site.kind, &site.function, &site.original, *twin).hash(&mut hasher);
        kinds.entry(site.kind).or_default().push((hasher.finish(), site));
    }
    kinds.values_mut().for_each(|sites| sites.sort_by_key(|(hash, _)| *hash));
    // If few are wanted, different files begin with different kinds.
    let mut kinds: Vec<_> = kinds.into_values().collect();
    let first = file.bytes().map(usize::from).sum::<usize>() % kinds.len().max(1);
    kinds.rotate_left(first);
    let most = kinds.iter().map(Vec::len).max().unwrap_or(0);
    let mut chosen: Vec<Site> = Vec::new();
    for turn in 0..most {
        for sites in &kinds {
            let Some((_, site)) = sites.get(turn) else { continue };
            if chosen.len() < count && !chosen.iter().any(|other| other.overlaps(site)) {
                chosen.push((*site).clone());
            }
        }
    }
    chosen.sort_by_key(|site| (site.range.start, site.range.end));
    chosen
}

struct Finder<'a> {
    text: &'a str,
    /// Offset of each line.
    starts: Vec<usize>,
    functions: Vec<String>,
    found: Vec<Site>,
}

impl Finder<'_> {
    /// The byte range of a span. Columns count characters.
    fn range(&self, span: Span) -> Option<Range<usize>> {
        let offset = |line: usize, column: usize| {
            let start = *self.starts.get(line.checked_sub(1)?)?;
            let rest = self.text.get(start..)?;
            Some(start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at))
        };
        Some(offset(span.start().line, span.start().column)?..offset(span.end().line, span.end().column)?)
    }

    fn code(&self, of: &impl Spanned) -> Option<String> {
        Some(self.text.get(self.range(of.span())?)?.to_string())
    }

    fn add(&mut self, span: Span, kind: Kind, change: Change) {
        let Some(mut range) = self.range(span) else { return };
        let Some(function) = self.functions.last().cloned() else { return };
        if matches!(change, Change::Insert(_)) {
            range.end = range.start;
        }
        let Some(original) = self.text.get(range.clone()) else { return };
        let original = original.to_string();
        self.found.push(Site { range, line: span.start().line, function, kind, change, original });
    }

    fn expression(&mut self, of: &impl Spanned, kind: Kind, changed: String) {
        self.add(of.span(), kind, Change::Expression(changed));
    }

    fn function(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute], block: &syn::Block) {
        if signature.constness.is_some() || for_tests(attributes) {
            return;
        }
        self.functions.push(signature.ident.to_string());
        let early = match &signature.output {
            ReturnType::Default => Some("return;".to_string()),
            ReturnType::Type(_, ty) => match self.code(ty).unwrap_or_default().as_str() {
                "Result<(), Status>" => Some("return Ok(());".into()),
                "bool" => Some("return false;".into()),
                option if option.starts_with("Option<") => Some("return None;".into()),
                _ => None,
            },
        };
        if let (Some(text), Some(first)) = (early, block.stmts.first()) {
            self.add(first.span(), Kind::Return, Change::Insert(text));
        }
        visit::visit_block(self, block);
        self.functions.pop();
    }

    fn binary(&mut self, expr: &syn::ExprBinary) -> Option<()> {
        let (left, right) = (self.code(&expr.left)?, self.code(&expr.right)?);
        let with = |op: &str| format!("{left} {op} {right}");
        // Selects one of two changes by the text, because the choice must be the same in every run.
        let first = (left.len() + right.len()).is_multiple_of(2);
        let either = |a: String, b: String| if first { a } else { b };
        let (kind, changed) = match &expr.op {
            BinOp::Lt(_) => (Kind::Relation, either(with("<="), with(">="))),
            BinOp::Le(_) => (Kind::Relation, either(with("<"), with(">"))),
            BinOp::Gt(_) => (Kind::Relation, either(with(">="), with("<="))),
            BinOp::Ge(_) => (Kind::Relation, either(with(">"), with("<"))),
            BinOp::Eq(_) => (Kind::Relation, with("!=")),
            BinOp::Ne(_) => (Kind::Relation, with("==")),
            BinOp::And(_) | BinOp::Or(_) if has_let(&expr.left) || has_let(&expr.right) => return None,
            BinOp::And(_) | BinOp::Or(_) => (Kind::Condition, either(left, right)),
            BinOp::Add(_) => (Kind::Arithmetic, either(with("-"), format!("{} + 1", with("+")))),
            BinOp::Sub(_) => (Kind::Arithmetic, either(with("+"), format!("{} - 1", with("-")))),
            BinOp::AddAssign(_) => (Kind::Arithmetic, with("-=")),
            BinOp::SubAssign(_) => (Kind::Arithmetic, with("+=")),
            _ => return None,
        };
        self.expression(expr, kind, changed);
        Some(())
    }
}

/// Whether it binds names, which restricts where it can be used.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |tokens: String| tokens.contains("test") || tokens.contains("fake");
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| is_test(list.tokens.to_string()))
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // Text for people does not affect behaviour.
        let shown = |path: &syn::Path| path.segments.last().is_some_and(|s| s.ident == "Debug" || s.ident == "Display");
        if !for_tests(&item.attrs) && !item.trait_.as_ref().is_some_and(|(_, path, _)| shown(path)) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.attrs, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.attrs, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, &item.attrs, block);
        }
    }

    // A constant expression cannot contain a switch.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt {
            let inner = if let Expr::Try(inner) = expr { &*inner.expr } else { expr };
            if matches!(inner, Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_)) {
                self.add(stmt.span(), Kind::Statement, Change::Omit);
            }
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        if let (false, Some(condition)) = (has_let(&expr.cond), self.code(&expr.cond)) {
            self.expression(&expr.cond, Kind::Condition, format!("!({condition})"));
        }
        visit::visit_expr_if(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if let (UnOp::Not(_), Some(inner)) = (expr.op, self.code(&expr.expr)) {
            self.expression(expr, Kind::Condition, inner);
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        self.binary(expr);
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_path(&mut self, expr: &'ast syn::ExprPath) {
        let names: Vec<String> = expr.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let [of, name] = names.as_slice() else { return };
        let constant = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        match (of.as_str(), name.as_str()) {
            _ if !constant => {}
            // Lack of memory is tested separately, and impossible errors have no case.
            ("Status", "OK" | "NO_MEMORY" | "INTERNAL") | ("Rights", "NONE" | "SAME_RIGHTS") | ("Signals", "NONE") => {}
            ("Status", "INVALID_ARGS") => self.expression(expr, Kind::Status, "Status::BAD_STATE".into()),
            ("Status", _) => self.expression(expr, Kind::Status, "Status::INVALID_ARGS".into()),
            ("Rights", _) => self.expression(expr, Kind::Rights, "Rights::NONE".into()),
            ("Signals", _) => self.expression(expr, Kind::Signals, "Signals::NONE".into()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
const A: u32 = 1 + 2;
fn f(a: u32, ä: u32) -> Result<(), Status> {
    if a < 3 && !b { g(ä, Signals::READABLE)?; }
    let x = [0; 2 + 2];
    if let Some(y) = z && y == 4 { return Err(Status::BAD_STATE); }
    x += 1;
    Ok(())
}
#[cfg(test)]
mod tests { fn t() { a == b; } }
impl fmt::Debug for X { fn fmt(&self) { a == b; } }
"#;

    #[test]
    fn finds_what_can_be_changed() {
        let sites = find(SOURCE).unwrap();
        let said: Vec<String> = sites.iter().map(|site| format!("{}: {}", site.line, site.describe())).collect();
        let expected = [
            "4: `return Ok(());` comes first",
            "4: `a < 3 && !b` becomes `!(a < 3 && !b)`",
            "4: `a < 3 && !b` becomes `!b`",
            "4: `a < 3` becomes `a <= 3`",
            "4: `!b` becomes `b`",
            "4: `g(ä, Signals::READABLE)?;` is left out",
            "4: `Signals::READABLE` becomes `Signals::NONE`",
            "6: `y == 4` becomes `y != 4`",
            "6: `Status::BAD_STATE` becomes `Status::INVALID_ARGS`",
            "7: `x += 1` becomes `x -= 1`",
        ];
        assert_eq!(said, expected);
        assert!(sites.iter().all(|site| SOURCE[site.range.clone()] == site.original && site.function == "f"));
    }

    #[test]
    fn the_choice_is_without_overlaps_and_always_the_same() {
        let sites = find(SOURCE).unwrap();
        let chosen = choose("f.rs", &sites, 6);
        assert_eq!(chosen, choose("f.rs", &sites, 6));
        for (n, a) in chosen.iter().enumerate() {
            assert!(chosen.iter().skip(n + 1).all(|b| !a.overlaps(b)), "{a:?}");
        }
        let omit = sites.iter().find(|site| site.change == Change::Omit).unwrap();
        assert_eq!(omit.switched("f(1)"), "if !f(1) { g(ä, Signals::READABLE)?; }");
    }
}
