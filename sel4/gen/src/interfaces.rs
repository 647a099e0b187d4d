//! The kernel's XML files: the methods of its objects, with their parameters, and the system calls.
//!
//! The files contain no numbers; these follow from the order of the entries that exist in a configuration.

use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};

use crate::condition::Condition;
use crate::error::{Error, read};

/// A method of a kernel object.
#[derive(Debug, Clone)]
pub struct Method {
    /// Its label's name, such as `CNodeCopy`.
    pub id: String,
    /// The interface it belongs to, such as `seL4_CNode`.
    pub interface: String,
    /// Its name within the interface, such as `Copy`.
    pub name: String,
    /// The condition under which it exists.
    pub condition: Condition,
    /// Its inputs, in order.
    pub inputs: Vec<Parameter>,
    /// Its outputs, in order.
    pub outputs: Vec<Parameter>,
    /// The file that defines it.
    pub path: PathBuf,
}

/// A parameter of a [`Method`].
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its C type.
    pub ty: String,
}

/// A structure that a method passes or returns word by word.
#[derive(Debug, Clone)]
pub struct Struct {
    /// Its C name.
    pub name: String,
    /// The names of its words, in order.
    pub members: Vec<String>,
}

/// One interface file.
#[derive(Debug, Clone, Default)]
pub struct Interfaces {
    /// All methods, in order.
    pub methods: Vec<Method>,
    /// All structures.
    pub structs: Vec<Struct>,
}

impl Interfaces {
    /// Reads one interface file.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = read(path)?;
        let document = parse(path, &text)?;
        let mut out = Self::default();
        for element in document.root_element().children().filter(Node::is_element) {
            match element.tag_name().name() {
                "struct" => out.structs.push(Struct {
                    name: attribute(path, element, "name")?,
                    members: named_children(path, element, "member")?,
                }),
                "interface" => {
                    let interface = attribute(path, element, "name")?;
                    for method in element.children().filter(|child| child.has_tag_name("method")) {
                        out.methods.push(self::method(path, &interface, method)?);
                    }
                }
                _ => {}
            }
        }
        Ok(out)
    }
}

fn method(path: &Path, interface: &str, element: Node<'_, '_>) -> Result<Method, Error> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for param in element.children().filter(|child| child.has_tag_name("param")) {
        let parameter = Parameter { name: attribute(path, param, "name")?, ty: attribute(path, param, "type")? };
        match param.attribute("dir") {
            Some("in") => inputs.push(parameter),
            Some("out") => outputs.push(parameter),
            _ => {
                return Err(Error::Xml {
                    path: path.into(),
                    what: format!("parameter `{}` is neither `in` nor `out`", parameter.name),
                });
            }
        }
    }
    Ok(Method {
        id: attribute(path, element, "id")?,
        interface: interface.to_owned(),
        name: attribute(path, element, "name")?,
        condition: condition(path, element)?,
        inputs,
        outputs,
        path: path.into(),
    })
}

/// System calls that share a condition.
#[derive(Debug, Clone)]
pub struct SyscallGroup {
    /// The condition under which they exist.
    pub condition: Condition,
    /// Their names, such as `ReplyRecv`, in order.
    pub names: Vec<String>,
}

/// The file of system calls.
#[derive(Debug, Clone)]
pub struct Syscalls {
    /// The calls of the kernel without MCS, numbered from -1 downwards.
    pub api: Vec<SyscallGroup>,
    /// The debugging calls, whose numbers follow.
    pub debug: Vec<SyscallGroup>,
}

impl Syscalls {
    /// Reads the file of system calls.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = read(path)?;
        let document = parse(path, &text)?;
        let root = document.root_element();
        let child = |name: &str| root.children().find(|child| child.has_tag_name(name));
        let missing = |what: &str| Error::Xml { path: path.into(), what: format!("no element <{what}>") };
        let api = child("api-master").or_else(|| child("api")).ok_or_else(|| missing("api"))?;
        let debug = child("debug").ok_or_else(|| missing("debug"))?;
        Ok(Self { api: groups(path, api)?, debug: groups(path, debug)? })
    }
}

fn groups(path: &Path, element: Node<'_, '_>) -> Result<Vec<SyscallGroup>, Error> {
    element
        .children()
        .filter(|child| child.has_tag_name("config"))
        .map(|config| {
            Ok(SyscallGroup { condition: condition(path, config)?, names: named_children(path, config, "syscall")? })
        })
        .collect()
}

fn parse<'t>(path: &Path, text: &'t str) -> Result<Document<'t>, Error> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    Document::parse_with_options(text, options).map_err(|e| Error::Xml { path: path.into(), what: e.to_string() })
}

fn attribute(path: &Path, element: Node<'_, '_>, name: &str) -> Result<String, Error> {
    element.attribute(name).map(str::to_owned).ok_or_else(|| Error::Xml {
        path: path.into(),
        what: format!("<{}> without attribute `{name}`", element.tag_name().name()),
    })
}

fn named_children(path: &Path, element: Node<'_, '_>, tag: &str) -> Result<Vec<String>, Error> {
    element.children().filter(|child| child.has_tag_name(tag)).map(|child| attribute(path, child, "name")).collect()
}

fn condition(path: &Path, element: Node<'_, '_>) -> Result<Condition, Error> {
    Condition::of(element).map_err(|what| Error::Syntax {
        path: path.into(),
        text: format!("{} {}", element.tag_name().name(), element.attribute("id").unwrap_or_default()),
        what,
    })
}
