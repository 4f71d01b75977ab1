//! Stacks as a tree from the root, and as folded lines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wallfinder_model::profile::{Node, Profile, ProfileKind, SMALLER};

use super::{Counted, add, named, value_of};

/// What is below this share of the total is too small for a tree.
const SHARE_MIN: f64 = 0.001;

/// The most nodes of a tree: of wide ones more is too small.
const NODES_MAX: usize = 3000;

#[derive(Default)]
struct Branch<'p> {
    value: i64,
    children: BTreeMap<&'p str, Branch<'p>>,
}

/// The tree of a profile in preorder, the largest child first, and last what is too small. Of each
/// node, its children and what is its own add up to its value.
pub(super) fn pruned(counted: &Counted<'_>) -> Vec<Node> {
    let mut root = Branch::default();
    for sample in &counted.profile.samples {
        let value = counted.value(sample);
        add(&mut root.value, value);
        let mut at = &mut root;
        for frame in sample.stack.iter().rev() {
            let name = named(&counted.profile.function(*frame).name);
            at = at.children.entry(name).or_default();
            add(&mut at.value, value);
        }
    }
    let mut least = ((root.value as f64 * SHARE_MIN).ceil() as i64).max(1);
    loop {
        let mut nodes = Vec::new();
        walk(&root, 0, least, &mut nodes);
        if nodes.len() <= NODES_MAX {
            return nodes;
        }
        least = least.saturating_mul(2);
    }
}

fn walk(branch: &Branch<'_>, depth: u32, least: i64, nodes: &mut Vec<Node>) {
    let children = branch.children.iter();
    let (mut kept, smaller): (Vec<_>, Vec<_>) =
        children.partition(|(_, child)| child.value >= least);
    kept.sort_by_key(|(_, child)| Reverse(child.value));
    for (name, child) in kept {
        nodes.push(Node {
            name: (*name).to_owned(),
            depth,
            value: child.value,
        });
        walk(child, depth + 1, least, nodes);
    }
    let value: i64 = smaller
        .iter()
        .fold(0, |sum: i64, (_, child)| sum.saturating_add(child.value));
    // At the root it tells that this is a tree whose sums hold.
    if value != 0 || depth == 0 {
        nodes.push(Node {
            name: SMALLER.to_owned(),
            depth,
            value,
        });
    }
}

/// Every stack as `root;caller;leaf value`, as tools for flame graphs read them, in order of
/// the stacks, with the value of the kind. Semicolons and line ends in names become commas and
/// blanks.
pub fn folded(kind: ProfileKind, profile: &Profile) -> String {
    let at = value_of(kind, profile);
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for sample in &profile.samples {
        let frames = sample.stack.iter().rev();
        let names: Vec<String> = frames
            .map(|frame| named(&profile.function(*frame).name).replace(';', ","))
            .collect();
        let line = names.join(";").replace(['\n', '\r'], " ");
        let value = sample.values.get(at).copied().unwrap_or(0);
        add(lines.entry(line).or_default(), value);
    }
    let mut text = String::new();
    for (line, value) in lines.iter().filter(|(_, value)| **value != 0) {
        text.push_str(&format!("{line} {value}\n"));
    }
    text
}
