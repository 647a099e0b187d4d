//! Tests of the tree, with contents in vectors.
use std::cell::RefCell;

use super::*;
use crate::walk::{Place, is_below, path_of, walk, walk_to_name};

struct Bytes(RefCell<Vec<u8>>);

impl Content for Bytes {
    fn size(&self) -> u64 {
        self.0.borrow().len() as u64
    }
    fn stored(&self) -> u64 {
        self.size()
    }
    fn resize(&self, size: u64) -> Result<()> {
        self.0.borrow_mut().resize(size as usize, 0);
        Ok(())
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let all = self.0.borrow();
        let from = all.get(offset as usize..).unwrap_or_default();
        let len = from.len().min(bytes.len());
        bytes[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let end = offset as usize + bytes.len();
        let size = end.max(self.0.borrow().len());
        self.resize(size as u64)?;
        self.0.borrow_mut()[offset as usize..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

struct Vecs;

impl Source for Vecs {
    type Content = Bytes;
    fn create(&mut self) -> Result<Bytes> {
        Ok(Bytes(RefCell::default()))
    }
    fn usage(&mut self) -> (u64, u64) {
        (0, 0)
    }
}

fn tree(budget: u64) -> (Tree<Vecs>, Rc<Budget>) {
    let budget = Budget::new(budget, budget);
    (Tree::new(Vecs, budget.clone()), budget)
}

fn used(budget: &Budget) -> u64 {
    budget.ledger.borrow().total()
}

fn there(tree: &mut Tree<Vecs>, path: &str) -> Result<Node> {
    match walk(tree, ROOT, path.as_bytes(), true)? {
        Place::There { node, .. } => Ok(node),
        _ => Err(Error::NotFound),
    }
}

#[test]
fn links_are_followed_and_lead_out() {
    let (mut tree, _) = tree(1 << 20);
    let dir = tree.make(ROOT, b"dir", New::Directory(0o755)).unwrap();
    let file = tree.make(dir, b"file", New::File(0o644)).unwrap();
    for (name, target) in
        [("in", "dir/file"), ("loop", "loop"), ("out", "/else/where"), ("up", "dir/../../x"), ("to", "dir")]
    {
        tree.make(ROOT, name.as_bytes(), New::Link(target.as_bytes())).unwrap();
    }
    assert_eq!(there(&mut tree, "in"), Ok(file));
    assert_eq!(there(&mut tree, "to/../to/./file"), Ok(file));
    assert_eq!(there(&mut tree, "loop"), Err(Error::Links));
    assert_eq!(there(&mut tree, "in/"), Err(Error::NotDirectory));
    assert_eq!(there(&mut tree, "dir/file/.."), Err(Error::NotDirectory));
    assert_eq!(there(&mut tree, &"n".repeat(256)), Err(Error::TooLong));
    let leads = |tree: &mut Tree<Vecs>, path: &[u8]| walk(tree, ROOT, path, false).unwrap();
    let elsewhere = |above, rest: &[u8]| Place::Elsewhere { above, rest: rest.to_vec() };
    assert_eq!(leads(&mut tree, b"out/y"), elsewhere(false, b"/else/where/y"));
    assert_eq!(leads(&mut tree, b"up/y"), elsewhere(true, b"x/y"));
    assert_eq!(leads(&mut tree, b".."), elsewhere(true, b""));
    tree.change(dir, &Change { mode: Some(0o600), ..Change::default() }).unwrap();
    assert_eq!(there(&mut tree, "dir/file"), Err(Error::Access));
}

#[test]
fn a_name_to_make_or_remove_is_no_way_through_a_link() {
    let (mut tree, _) = tree(1 << 20);
    let dir = tree.make(ROOT, b"dir", New::Directory(0o755)).unwrap();
    for (name, target) in [("dangling", "nothing"), ("to", "dir"), ("out", "/else/where")] {
        let link = tree.make(ROOT, name.as_bytes(), New::Link(target.as_bytes())).unwrap();
        for path in [name.to_string(), format!("{name}/"), format!("dir/../{name}//")] {
            let found = walk_to_name(&mut tree, ROOT, path.as_bytes()).unwrap();
            assert!(matches!(found, Place::There { node, entry: Some(_) } if node == link), "{path}: {found:?}");
        }
    }
    let missing = |name: &[u8], slash| Ok(Place::Missing { directory: dir, name: name.to_vec(), slash });
    assert_eq!(walk_to_name(&mut tree, ROOT, b"to/new"), missing(b"new", false));
    assert_eq!(walk_to_name(&mut tree, ROOT, b"to/new///"), missing(b"new", true));
    assert_eq!(walk_to_name(&mut tree, ROOT, b"/"), Err(Error::Invalid));
    assert!(matches!(walk_to_name(&mut tree, ROOT, b""), Ok(Place::There { entry: None, .. })));
}

#[test]
fn nodes_live_as_long_as_names_and_holders() {
    let (mut tree, budget) = tree(1 << 20);
    let before = used(&budget);
    let dir = tree.make(ROOT, b"dir", New::Directory(0o755)).unwrap();
    let file = tree.make(dir, b"a", New::File(0o644)).unwrap();
    tree.link(file, ROOT, b"b").unwrap();
    tree.hold(file);
    assert_eq!(tree.unlink(ROOT, b"dir"), Err(Error::NotEmpty));
    tree.unlink(dir, b"a").unwrap();
    tree.unlink(ROOT, b"b").unwrap();
    assert_eq!(tree.attributes(file).unwrap().links, 0);
    assert_eq!(tree.link(file, ROOT, b"c"), Err(Error::NotFound));
    tree.release(file);
    assert_eq!(tree.attributes(file), Err(Error::NotFound));
    tree.hold(dir);
    tree.unlink(ROOT, b"dir").unwrap();
    // Nothing can be created in a removed directory.
    assert_eq!(tree.make(dir, b"x", New::File(0)), Err(Error::NotFound));
    assert_eq!(path_of(&mut tree, dir), Err(Error::NotFound));
    tree.release(dir);
    assert_eq!((used(&budget), budget.nodes.get()), (before, 1));
}

#[test]
fn names_of_sockets_are_nodes_without_content() {
    let (mut tree, budget) = tree(1 << 20);
    let before = used(&budget);
    let socket = tree.make(ROOT, b"socket", New::Socket(0o755)).unwrap();
    let told = tree.attributes(socket).unwrap();
    assert_eq!((told.kind, told.mode, told.links, told.size), (Kind::Socket, 0o755, 1, 0));
    assert_eq!((tree.size(socket), tree.write(socket, 0, b"x")), (Err(Error::Invalid), Err(Error::Invalid)));
    let mut data = Vec::new();
    tree.entries(ROOT, 0, &mut data).unwrap();
    assert!(file_protocol::entries(&data).all(|entry| entry.kind == Kind::Socket && entry.node == socket));
    // A bound socket stays, even without names.
    tree.hold(socket);
    tree.unlink(ROOT, b"socket").unwrap();
    assert_eq!(tree.kind(socket), Ok((Kind::Socket, 0o755)));
    tree.release(socket);
    assert_eq!(tree.kind(socket), Err(Error::NotFound));
    assert_eq!(used(&budget), before);
}

#[test]
fn directories_move_with_their_contents() {
    let (mut tree, _) = tree(1 << 20);
    let [a, b] = [b"a", b"b"].map(|name| tree.make(ROOT, name, New::Directory(0o755)).unwrap());
    let inner = tree.make(a, b"inner", New::Directory(0o755)).unwrap();
    tree.rename((a, b"inner"), (b, b"moved")).unwrap();
    assert_eq!(path_of(&mut tree, inner).unwrap(), b"b/moved");
    assert_eq!((tree.attributes(a).unwrap().links, tree.attributes(b).unwrap().links), (2, 3));
    assert_eq!(is_below(&mut tree, inner, b), Ok(true));
    assert_eq!(is_below(&mut tree, a, b), Ok(false));
    tree.rename((ROOT, b"a"), (b, b"moved")).unwrap();
    assert_eq!((there(&mut tree, "b/moved"), there(&mut tree, "a")), (Ok(a), Err(Error::NotFound)));
}

#[test]
fn an_exhausted_budget_leaves_existing_charges() {
    let (mut tree, budget) = tree(20_000);
    let mut made = 0;
    let name = |number: u32| number.to_string().into_bytes();
    while tree.make(ROOT, &name(made), New::File(0o644)).is_ok() {
        made += 1;
    }
    let all = used(&budget);
    assert_eq!(tree.make(ROOT, b"one more", New::Link(b"x")), Err(Error::Full));
    assert_eq!(used(&budget), all);
    assert!((0..made).all(|number| tree.find(ROOT, &name(number)).is_ok()));
    tree.unlink(ROOT, b"0").unwrap();
    tree.make(ROOT, b"0", New::File(0o644)).unwrap();
    drop(tree);
    assert_eq!((used(&budget), budget.nodes.get()), (0, 0));
}

#[test]
fn listing_continues_while_names_are_removed() {
    let (mut tree, _) = tree(1 << 20);
    for number in 0..10 {
        tree.make(ROOT, &[b'0' + number], New::File(0)).unwrap();
    }
    let mut data = Vec::new();
    tree.entries(ROOT, 0, &mut data).unwrap();
    let cookies: Vec<u64> = file_protocol::entries(&data).map(|entry| entry.cookie).collect();
    for gone in [b"0", b"4", b"5"] {
        tree.unlink(ROOT, gone).unwrap();
    }
    data.clear();
    tree.entries(ROOT, cookies[3], &mut data).unwrap();
    let names: Vec<u8> = file_protocol::entries(&data).map(|entry| entry.name[0]).collect();
    assert_eq!(names, b"6789");
}

#[test]
fn names_are_charged_to_their_creator() {
    let (mut tree, budget) = tree(1 << 20);
    let name = |number: u32| number.to_string().into_bytes();
    tree.charge(Program(1));
    let mut made = 0;
    while tree.make(ROOT, &name(made), New::File(0o644)).is_ok() {
        made += 1;
    }
    assert!(used(&budget) > (1 << 19) - 2 * NODE_COST && used(&budget) <= 1 << 19);
    // Half of the budget is left for other programs. A program's name for another program's file is charged to the
    // former.
    tree.charge(Program(2));
    tree.make(ROOT, b"another", New::File(0o644)).unwrap();
    let file = tree.find(ROOT, b"0").unwrap();
    tree.link(file, ROOT, b"name").unwrap();
    let cost = NODE_COST + name_cost(b"another") + name_cost(b"name");
    assert_eq!(budget.ledger.borrow().used(Program(2)), cost);
    // Whichever program removes it, its cost is returned to the program that was charged.
    for number in 0..made {
        tree.unlink(ROOT, &name(number)).unwrap();
    }
    assert_eq!(budget.ledger.borrow().used(Program(1)), NODE_COST);
    tree.rename((ROOT, b"name"), (ROOT, b"moved")).unwrap();
    tree.unlink(ROOT, b"moved").unwrap();
    assert_eq!(budget.ledger.borrow().used(Program(1)), 0);
    tree.unlink(ROOT, b"another").unwrap();
    assert_eq!(used(&budget), 0);
}

#[test]
fn a_tree_is_destroyed_in_slices() {
    let (mut tree, budget) = tree(1 << 24);
    for folder in [b"a", b"b"] {
        let folder = tree.make(ROOT, folder, New::Directory(0o755)).unwrap();
        for number in 0..1000 {
            tree.make(folder, number.to_string().as_bytes(), New::Link(b"x")).unwrap();
        }
    }
    let mut turns = 0;
    let mut before = used(&budget);
    while !tree.end(100) {
        turns += 1;
        assert!(before - used(&budget) <= 100 * (NODE_COST + name_cost(b"999")));
        before = used(&budget);
    }
    // A name, a node and the next node count as one part each.
    assert!((40..=70).contains(&turns), "{turns}");
    assert_eq!((used(&budget), budget.nodes.get()), (0, 0));
    assert!(tree.end(1));
}

#[test]
fn the_longest_walk_looks_at_each_part_once() {
    let (mut tree, _) = tree(1 << 24);
    // Forty links, each with the maximum number of path components.
    let dots = "./".repeat(2000);
    for number in 0..40 {
        let target = format!("{dots}{}", number + 1);
        tree.make(ROOT, number.to_string().as_bytes(), New::Link(target.as_bytes())).unwrap();
    }
    let file = tree.make(ROOT, b"40", New::File(0o644)).unwrap();
    assert_eq!(there(&mut tree, "0"), Ok(file));
    assert_eq!(there(&mut tree, ".///././/0"), Ok(file));
}
