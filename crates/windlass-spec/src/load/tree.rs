//! YAML text as a tree in which every node knows its place.
//!
//! Input: text. Output: the one document in it. Aliases are copied and merge keys (`<<`) resolved within a budget, so
//! that a small text cannot become a large tree.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::problems::{Place, Problem};

/// Nodes a document may have, copies made by aliases included.
const NODE_BUDGET: usize = 50_000;
/// Levels a document may have.
const DEPTH_BUDGET: usize = 64;
/// Key that takes another mapping's entries over.
const MERGE_KEY: &str = "<<";

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) kind: Kind,
    /// Nodes in it, itself included.
    size: usize,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A scalar: its text, and whether it stands without quotes.
    Scalar { text: String, plain: bool },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in its written order; keys may be there twice.
    Map(Vec<Entry>),
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Node,
}

impl Node {
    fn new(place: Place, kind: Kind) -> Self {
        let size = 1 + match &kind {
            Kind::Scalar { .. } => 0,
            Kind::List(items) => items.iter().map(|item| item.size).sum(),
            Kind::Map(entries) => entries.iter().map(|entry| entry.value.size + 1).sum(),
        };
        Self { place, kind, size }
    }

    /// Is it an unquoted nothing?
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true } if is_null_text(text))
    }
}

/// Ways to write nothing without quotes.
pub(super) fn is_null_text(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

type Parsed<T> = Result<T, Box<Problem>>;

/// The document in a text.
pub(super) fn parse(text: &str) -> Parsed<Node> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut builder =
        Builder { text, parser: Parser::new_from_str_with_options(text, options), anchors: HashMap::new(), nodes: 0 };
    let documents = builder.documents()?;
    let mut documents = documents.into_iter().filter(|document| !document.is_null());
    match (documents.next(), documents.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let problem = Problem::error("no-document", "", "there is no document in this file");
            Err(Box::new(problem.hint("`windlass generate cluster NAME` prints one to begin with")))
        }
        (Some(first), Some(second)) => {
            let problem = Problem::error("second-document", "", "there is a second document in this file");
            let problem = problem.at(second.place).label("this one").other(first.place, "first document");
            Err(Box::new(problem.hint("a file holds one Cluster: move the other to a file of its own")))
        }
    }
}

struct Builder<'text> {
    text: &'text str,
    parser: Parser<'text, granit_parser::StrInput<'text>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'text> Builder<'text> {
    fn next(&mut self) -> Parsed<Option<(Event<'text>, Span)>> {
        self.parser.next_event().transpose().map_err(|error| Box::new(syntax(&error, self.text)))
    }

    fn documents(&mut self) -> Parsed<Vec<Node>> {
        let mut documents = Vec::new();
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                node => documents.push(self.node(node, span, 0)?),
            }
        }
        Ok(documents)
    }

    fn node(&mut self, event: Event<'text>, span: Span, depth: usize) -> Parsed<Node> {
        let place = place(span, self.text);
        if depth > DEPTH_BUDGET {
            let message = format!("this is nested deeper than {DEPTH_BUDGET} levels");
            return Err(Box::new(Problem::error("too-deep", "", message).at(place)));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && !is_tagged(tag.as_deref(), "str");
                let kind = Kind::Scalar { text: text.into_owned(), plain };
                self.finish(Node::new(place, kind), anchor, tag.as_deref(), &["str"])
            }
            Event::SequenceStart(_, anchor, tag) => {
                let items = self.items(depth)?;
                self.finish(Node::new(place, Kind::List(items)), anchor, tag.as_deref(), &["seq"])
            }
            Event::MappingStart(_, anchor, tag) => {
                let entries = self.entries(depth)?;
                self.finish(Node::new(place, Kind::Map(entries)), anchor, tag.as_deref(), &["map"])
            }
            Event::Alias(anchor) => self.alias(anchor, place),
            _ => Err(Box::new(Problem::error("syntax", "", "this is no value").at(place))),
        }
    }

    /// Counts a node, refuses tags that would change its meaning, remembers it under its anchor.
    fn finish(&mut self, node: Node, anchor: usize, tag: Option<&Tag>, allowed: &[&str]) -> Parsed<Node> {
        self.count(1, node.place)?;
        if tag.is_some_and(|tag| !allowed.iter().any(|name| tag.is_yaml_core_schema_tag(name))) {
            let problem = Problem::error("tag", "", "tags are not used here").at(node.place);
            return Err(Box::new(problem.hint("take away the word that begins with `!`")));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn count(&mut self, nodes: usize, place: Place) -> Parsed<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= NODE_BUDGET {
            return Ok(());
        }
        let message = format!("with its aliases this document has more than {NODE_BUDGET} values");
        Err(Box::new(Problem::error("too-large", "", message).at(place)))
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Parsed<Node> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            let message = "this alias is used inside the value it stands for";
            return Err(Box::new(Problem::error("alias", "", message).at(place)));
        };
        self.count(node.size, place)?;
        Ok(node)
    }

    fn items(&mut self, depth: usize) -> Parsed<Vec<Node>> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::SequenceEnd) {
                break;
            }
            items.push(self.node(event, span, depth + 1)?);
        }
        Ok(items)
    }

    fn entries(&mut self, depth: usize) -> Parsed<Vec<Entry>> {
        let mut entries = Vec::new();
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let plain_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == MERGE_KEY);
            let key = self.node(event, span, depth + 1)?;
            let Some((event, span)) = self.next()? else { break };
            let value = self.node(event, span, depth + 1)?;
            if plain_merge {
                entries.extend(merged(&value)?);
            } else {
                entries.push(Entry { place: key.place, key: key_text(key)?, value });
            }
        }
        Ok(entries)
    }
}

fn is_tagged(tag: Option<&Tag>, name: &str) -> bool {
    tag.is_some_and(|tag| tag.is_yaml_core_schema_tag(name))
}

/// A key's text as it is written: `yes`, `8080` and the like stay text.
fn key_text(key: Node) -> Parsed<String> {
    let place = key.place;
    match key.kind {
        Kind::Scalar { text, plain } if !(plain && is_null_text(&text)) => Ok(text),
        _ => Err(Box::new(Problem::error("key", "", "a field's name must be plain text").at(place))),
    }
}

/// The entries a merge key takes over.
fn merged(value: &Node) -> Parsed<Vec<Entry>> {
    match &value.kind {
        Kind::Map(entries) => Ok(entries.clone()),
        Kind::List(items) => items.iter().map(merged).collect::<Parsed<Vec<_>>>().map(|lists| lists.concat()),
        Kind::Scalar { .. } => {
            let message = "a merge key (`<<`) takes a mapping, or a list of mappings";
            Err(Box::new(Problem::error("merge", "", message).at(value.place)))
        }
    }
}

fn place(span: Span, text: &str) -> Place {
    let (start, end) = (span.start, span.end);
    let width = if start.line() == end.line() {
        end.col().saturating_sub(start.col())
    } else {
        let line = text.lines().nth(start.line().saturating_sub(1)).unwrap_or_default();
        line.trim_end().chars().count().saturating_sub(start.col())
    };
    Place { line: start.line().max(1), column: start.col() + 1, width: width.max(1) }
}

fn syntax(error: &ScanError, text: &str) -> Problem {
    let marker = error.marker();
    let place = Place { line: marker.line().max(1), column: marker.col() + 1, width: 1 };
    let problem = Problem::error("syntax", "", format!("this is no YAML: {}", error.info())).at(place);
    let line = text.lines().nth(place.line - 1).unwrap_or_default();
    if line.chars().take_while(|character| character.is_whitespace()).any(|character| character == '\t') {
        return problem.hint("the line is indented with a tab; YAML wants blanks");
    }
    problem
}
