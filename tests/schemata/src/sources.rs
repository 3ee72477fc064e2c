//! Writes a source file with its mutants, each behind a switch:
//! ```text
//! a + b       (if crate::mutant::on(7) { a - b } else { a + b })
//! ```
//! A mutant's own text contains no other mutants, so the file grows at most by the nesting depth.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::mutants::{Genre, Mutant, Place};

/// The first and last line of each mutant, by number.
pub(crate) type Spots = BTreeMap<usize, (usize, usize)>;

/// A part of a file that has mutants.
#[derive(Debug)]
struct Node {
    start: usize,
    end: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Replaces an expression, if the number is switched on.
    Expression(Vec<(usize, String)>),
    /// Runs before the statements of a function.
    Function(Vec<(usize, String)>),
    /// An arm of a match, with or without a guard.
    Arm { number: usize, guarded: bool },
}

/// Returns the text of a file with these mutants, and the lines of each.
pub(crate) fn switched(text: &str, mutants: &[&Mutant]) -> Result<(String, Spots)> {
    let file = syn::parse_file(text).context("a source file")?;
    let lines = Lines::new(text);
    let mut finder =
        Finder { text, lines: &lines, wanted: BTreeMap::new(), nodes: Vec::new(), constant: 0 };
    for mutant in mutants {
        finder
            .wanted
            .entry((key(mutant.genre), lines.byte(mutant.start)))
            .or_default()
            .push(mutant);
    }
    finder.visit_file(&file);
    let Finder { mut nodes, .. } = finder;
    // Outer ones first.
    nodes.sort_by_key(|node| (node.start, std::cmp::Reverse(node.end)));
    let mut out = Output { text, nodes: &nodes, out: String::new(), places: BTreeMap::new() };
    let mut next = 0;
    out.emit(0, text.len(), &mut next)?;
    if next < nodes.len() {
        bail!("{:?} overlaps another mutant", nodes[next]);
    }
    Ok((out.out, out.places))
}

fn key(genre: Genre) -> u8 {
    genre as u8
}

/// Line starts.
struct Lines<'a>(Vec<(usize, &'a str)>);

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = text.split_inclusive('\n').scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line))
        });
        Self(starts.collect())
    }

    fn byte(&self, (line, column): Place) -> usize {
        let Some(&(start, text)) = self.0.get(line - 1) else { return usize::MAX };
        start + text.char_indices().nth(column).map_or(text.len(), |(byte, _)| byte)
    }

    fn of(&self, span: Span) -> (usize, usize) {
        let (start, end) = (span.start(), span.end());
        (self.byte((start.line, start.column)), self.byte((end.line, end.column)))
    }
}

/// Finds the expressions that mutants belong to.
struct Finder<'a> {
    text: &'a str,
    lines: &'a Lines<'a>,
    /// By kind of mutant and first byte.
    wanted: BTreeMap<(u8, usize), Vec<&'a Mutant>>,
    nodes: Vec<Node>,
    /// Nesting depth of code that is evaluated at compile time.
    constant: usize,
}

impl Finder<'_> {
    fn take(&mut self, genre: Genre, at: usize) -> Vec<(usize, String)> {
        if self.constant > 0 {
            return Vec::new();
        }
        let found = self.wanted.remove(&(key(genre), at)).unwrap_or_default();
        found.into_iter().map(|mutant| (mutant.number, mutant.replacement.clone())).collect()
    }

    fn body(&mut self, block: &syn::Block) {
        if let Some(first) = block.stmts.first() {
            let (at, _) = self.lines.of(first.span());
            let found = self.take(Genre::Function, at);
            if !found.is_empty() {
                self.nodes.push(Node { start: at, end: at, kind: Kind::Function(found) });
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.body(&item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.body(&item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        item.default.iter().for_each(|block| self.body(block));
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let (at, after) = self.lines.of(binary.op.span());
        let (start, end) = self.lines.of(binary.span());
        let found = self.take(Genre::Binary, at);
        if !found.is_empty() && !Lets::within(binary) {
            let (left, right) = (&self.text[start..at], &self.text[after..end]);
            let variants = found.into_iter().map(|(n, op)| (n, format!("{left}{op}{right}")));
            let kind = Kind::Expression(variants.collect());
            self.nodes.push(Node { start, end, kind });
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let (start, end) = self.lines.of(unary.span());
        let found = self.take(Genre::Unary, start);
        if !found.is_empty() {
            let (_, after) = self.lines.of(unary.op.span());
            let operand = &self.text[after..end];
            let variants = found.into_iter().map(|(n, op)| (n, format!("{op}{operand}")));
            self.nodes.push(Node { start, end, kind: Kind::Expression(variants.collect()) });
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let (start, _) = self.lines.of(arm.span());
        if let Some((number, _)) = self.take(Genre::Arm, start).pop() {
            let at = match &arm.guard {
                Some((_, guard)) => self.lines.of(guard.span()).0,
                None => self.lines.of(arm.pat.span()).1,
            };
            let kind = Kind::Arm { number, guarded: arm.guard.is_some() };
            self.nodes.push(Node { start: at, end: at, kind });
        }
        if let Some((_, guard)) = &arm.guard {
            let (start, end) = self.lines.of(guard.span());
            let found = self.take(Genre::Guard, start);
            if !found.is_empty() {
                self.nodes.push(Node { start, end, kind: Kind::Expression(found) });
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant += 1;
        visit::visit_item_const(self, item);
        self.constant -= 1;
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant += 1;
        visit::visit_impl_item_const(self, item);
        self.constant -= 1;
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant += 1;
        visit::visit_item_static(self, item);
        self.constant -= 1;
    }

    fn visit_expr_const(&mut self, expression: &'ast syn::ExprConst) {
        self.constant += 1;
        visit::visit_expr_const(self, expression);
        self.constant -= 1;
    }

    /// Types and patterns contain only constants.
    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
}

/// Whether an expression is part of a `let` condition, which must not be put in parentheses.
struct Lets(bool);

impl Lets {
    fn within(binary: &syn::ExprBinary) -> bool {
        let mut lets = Self(false);
        visit::visit_expr_binary(&mut lets, binary);
        lets.0
    }
}

impl<'ast> Visit<'ast> for Lets {
    fn visit_expr_let(&mut self, _: &'ast syn::ExprLet) {
        self.0 = true;
    }
}

struct Output<'a> {
    text: &'a str,
    nodes: &'a [Node],
    out: String,
    places: Spots,
}

impl Output<'_> {
    fn line(&self) -> usize {
        1 + self.out.bytes().filter(|&byte| byte == b'\n').count()
    }

    /// Writes the text from `at` to `end` with the nodes in it, beginning with node `next`.
    fn emit(&mut self, mut at: usize, end: usize, next: &mut usize) -> Result<()> {
        while let Some(node) = self
            .nodes
            .get(*next)
            .filter(|node| node.start < end || node.end == end && node.start >= at)
        {
            if node.end > end {
                bail!("{node:?} overlaps another mutant");
            }
            *next += 1;
            self.out += &self.text[at..node.start];
            match &node.kind {
                Kind::Expression(variants) => {
                    self.out.push('(');
                    for (number, variant) in variants {
                        self.switch(*number, variant)?;
                        self.out += " else ";
                    }
                    self.out += "{ ";
                    self.emit(node.start, node.end, next)?;
                    self.out += " })";
                }
                Kind::Function(values) => {
                    for (number, value) in values {
                        self.switch(*number, &format!("return {value};"))?;
                    }
                }
                Kind::Arm { number, guarded } => {
                    let line = self.line();
                    self.places.insert(*number, (line, line));
                    let (before, after) = if *guarded { ("", " && ") } else { (" if ", "") };
                    write!(self.out, "{before}!crate::mutant::on({number}){after}")?;
                }
            }
            at = node.end;
        }
        self.out += &self.text[at..end];
        Ok(())
    }

    fn switch(&mut self, number: usize, then: &str) -> Result<()> {
        // On a line of its own, so that a compiler error names one mutant.
        let first = self.line() + 1;
        write!(self.out, "\nif crate::mutant::on({number}) {{ {then} }}\n")?;
        self.places.insert(number, (first, self.line() - 1));
        Ok(())
    }
}
