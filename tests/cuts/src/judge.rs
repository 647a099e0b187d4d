//! What a reader may find after a cut.
//!
//! The judge gets the trees before and after each operation since the last synced one. A found tree is valid if it
//! keeps what all these trees have in common:
//!
//! 1. Nothing else is there: each found name stands for an object that it stood for in one of the trees.
//! 2. A name that all the trees have is found.
//! 3. An object that has a name in all the trees is found under one of its names.
//! 4. Each byte of a file's content is that of one of its states, or zero where the file was extended. Its length lies
//!    between the lengths of its states.
//! 5. Where names change [as a whole](Promise::Whole), the found names are those of one of the trees.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::plan::{MARK, Model, Object, Tree};

/// What a file system guarantees for names after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameGuarantee {
    /// The names are those of one moment.
    Whole,
    /// After a rename both names may be found.
    Each,
}

/// Judges what was found. Removes the mark file from `found`, and changes nothing else.
///
/// # Errors A sentence that says which rule is violated.
pub fn judge(found: &mut Tree, trees: &[Model], promise: RenameGuarantee) -> Result<(), String> {
    found.remove(MARK);
    match trees {
        [] => Err("there is no tree that it could be".to_owned()),
        [first, ..] if first.is(found) => Ok(()),
        [.., last] if last.is(found) => Ok(()),
        _ => Judge::new(trees).judge(found, trees, promise),
    }
}

/// The states of one object in all the trees.
#[derive(Default)]
struct States<'a> {
    contents: Vec<&'a Rc<Vec<u8>>>,
    names: BTreeSet<&'a str>,
    /// The number of trees in which it has a name.
    trees: usize,
}

struct Judge<'a> {
    objects: BTreeMap<Object, States<'a>>,
    /// For each name: the objects that it stands for in any of the trees, and the number of trees that have it.
    names: BTreeMap<&'a str, (BTreeSet<Object>, usize)>,
}

impl<'a> Judge<'a> {
    fn new(trees: &'a [Model]) -> Judge<'a> {
        let mut judge = Judge { objects: BTreeMap::new(), names: BTreeMap::new() };
        for tree in trees {
            let mut seen = BTreeSet::new();
            for (path, object, content) in tree.names() {
                let states = judge.objects.entry(object).or_default();
                states.names.insert(path);
                if seen.insert(object) {
                    states.trees += 1;
                    if states.contents.last().is_none_or(|last| !Rc::ptr_eq(last, content)) {
                        states.contents.push(content);
                    }
                }
                let name = judge.names.entry(path).or_default();
                name.0.insert(object);
                name.1 += 1;
            }
        }
        judge
    }

    fn judge(&self, found: &Tree, trees: &[Model], promise: RenameGuarantee) -> Result<(), String> {
        // Rules 1 and 4.
        for (path, content) in found {
            let Some((objects, _)) = self.names.get(path.as_str()) else {
                return Err(format!("nobody has made {path}"));
            };
            let mut wrong = objects.iter().map(|object| self.content(*object, trees, content));
            let first = wrong.next().unwrap_or(Ok(()));
            if let Err(why) = first
                && wrong.all(|wrong| wrong.is_err())
            {
                return Err(format!("{path} {why}"));
            }
        }
        // Rule 2.
        let lost = |(name, (_, count)): &(&&str, &(_, usize))| *count == trees.len() && !found.contains_key(**name);
        if let Some((name, _)) = self.names.iter().find(lost) {
            return Err(format!("{name} is gone"));
        }
        // Rule 3.
        let shown = |states: &States<'_>| {
            let is_it = |name: &&&str| {
                let content = found.get(**name);
                content.is_some_and(|content| states.accepts(content, states.trees < trees.len()).is_ok())
            };
            states.names.iter().any(|name| is_it(&name))
        };
        let lost = |states: &&States<'_>| states.trees == trees.len() && !shown(states);
        if let Some(states) = self.objects.values().find(lost) {
            return Err(format!("what had the names {:?} is gone", states.names));
        }
        // Rule 5.
        let same = |tree: &Model| tree.names().map(|(path, ..)| path).eq(found.keys());
        if promise == RenameGuarantee::Whole && !trees.iter().any(|tree| same(tree) && self.fits(tree, found, trees)) {
            return Err("the names are those of no time".to_owned());
        }
        Ok(())
    }

    fn content(&self, object: Object, trees: &[Model], content: &[u8]) -> Result<(), String> {
        let states = self.objects.get(&object).ok_or("is nothing")?;
        states.accepts(content, states.trees < trees.len())
    }

    /// Whether each name stands for the object that it stood for in this tree.
    fn fits(&self, tree: &Model, found: &Tree, trees: &[Model]) -> bool {
        tree.names().all(|(path, object, _)| {
            found.get(path).is_some_and(|content| self.content(object, trees, content).is_ok())
        })
    }
}

impl States<'_> {
    /// Whether this may be found as the object's content. `young`: not all trees have the object, so its file may still
    /// be growing from nothing.
    fn accepts(&self, content: &[u8], young: bool) -> Result<(), String> {
        let lengths = || self.contents.iter().map(|state| state.len());
        let least = if young { 0 } else { lengths().min().unwrap_or(0) };
        let most = lengths().max().unwrap_or(0);
        if !(least..=most).contains(&content.len()) {
            return Err(format!("has {} bytes, and not {least} to {most}", content.len()));
        }
        let right = |(at, byte): (usize, &u8)| {
            let mut states = self.contents.iter().map(|state| state.get(at));
            states.clone().any(|state| state == Some(byte))
                || *byte == 0 && (young || states.any(|state| state.is_none()))
        };
        // Most contents equal one of the states.
        if self.contents.iter().any(|state| state.as_slice() == content) {
            return Ok(());
        }
        let wrong = content.iter().enumerate().position(|place| !right(place));
        wrong.map_or(Ok(()), |at| Err(format!("has a byte of somebody else's at {at}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Operation, content};

    fn trees(operations: &[Operation]) -> Vec<Model> {
        let mut model = Model::default();
        let mut all = vec![model.clone()];
        for operation in operations {
            model.apply(operation);
            all.push(model.clone());
        }
        all
    }

    fn made(path: &str, first: u8) -> Operation {
        Operation::Make(path.to_owned(), content(first, 700))
    }

    fn tree(names: &[(&str, &[u8])]) -> Tree {
        names.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect()
    }

    #[test]
    fn a_save_by_renaming_keeps_one_of_both() {
        let (old, new) = (content(3, 700), content(9, 700));
        let renamed = Operation::Rename("new".into(), "file".into(), false);
        let all = trees(&[made("file", 3), made("new", 9), renamed]);
        let both = tree(&[("file", &old), ("new", &new)]);
        let after = tree(&[("file", &new)]);
        let twice = tree(&[("file", &new), ("new", &new)]);
        let lost = [tree(&[]), tree(&[("file", &old)]), tree(&[("new", &new)]), tree(&[("file", &[0; 700])])];
        for good in [&both, &after] {
            assert_eq!(judge(&mut good.clone(), &all[2..], RenameGuarantee::Whole), Ok(()));
        }
        assert_eq!(judge(&mut twice.clone(), &all[2..], RenameGuarantee::Each), Ok(()));
        assert!(judge(&mut twice.clone(), &all[2..], RenameGuarantee::Whole).is_err());
        for mut bad in lost {
            assert!(judge(&mut bad, &all[2..], RenameGuarantee::Each).is_err(), "{:?}", bad.keys());
        }
        // What was synced afterwards must differ from the state before.
        assert!(judge(&mut both.clone(), &all[3..], RenameGuarantee::Each).is_err());
        // A file that was created since may be there in part, without bytes of other files.
        let part = tree(&[("file", &old), ("new", &new[..600])]);
        assert_eq!(judge(&mut part.clone(), &all[1..3], RenameGuarantee::Whole), Ok(()));
        assert!(judge(&mut part.clone(), &all[2..3], RenameGuarantee::Whole).is_err());
        let foreign = tree(&[("file", &old), ("new", &old)]);
        assert!(judge(&mut foreign.clone(), &all[1..3], RenameGuarantee::Whole).is_err());
    }

    #[test]
    fn content_is_of_its_own_states() {
        let all = trees(&[
            made("file", 3),
            Operation::Overwrite("file".into(), 100, content(8, 100)),
            Operation::Resize("file".into(), 50),
            Operation::Append("file".into(), content(5, 2000)),
        ]);
        let mut mixed = content(3, 700);
        mixed[150..200].copy_from_slice(&content(8, 50));
        assert_eq!(judge(&mut tree(&[("file", &mixed)]), &all[1..3], RenameGuarantee::Whole), Ok(()));
        mixed[300] = 2;
        assert!(judge(&mut tree(&[("file", &mixed)]), &all[1..3], RenameGuarantee::Whole).is_err());
        mixed.resize(1000, 0);
        mixed[300] = 3;
        assert_eq!(judge(&mut tree(&[("file", &mixed)]), &all[1..], RenameGuarantee::Whole), Ok(()));
        assert!(judge(&mut tree(&[("file", &mixed[..40])]), &all[1..], RenameGuarantee::Whole).is_err());
    }

    #[test]
    fn names_move_together() {
        let all = trees(&[
            Operation::MakeDirectory("a/".into()),
            made("a/one", 3),
            made("a/two", 5),
            Operation::Rename("a/".into(), "b/".into(), false),
            Operation::Link("b/one".into(), "three".into()),
        ]);
        let (one, two) = (content(3, 700), content(5, 700));
        let half = tree(&[("a/", &[]), ("a/one", &one), ("b/", &[]), ("b/two", &two)]);
        assert_eq!(judge(&mut half.clone(), &all[3..], RenameGuarantee::Each), Ok(()));
        assert!(judge(&mut half.clone(), &all[3..], RenameGuarantee::Whole).is_err());
        let linked = tree(&[("b/", &[]), ("b/one", &one), ("b/two", &two), ("three", &one)]);
        assert_eq!(judge(&mut linked.clone(), &all[3..], RenameGuarantee::Whole), Ok(()));
    }
}
