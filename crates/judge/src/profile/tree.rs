//! Stacks as a tree from the root, and as folded lines.

use std::collections::BTreeMap;

use wallfinder_model::profile::{Node, Profile, ProfileKind};

use super::{Counted, named, value_of};

/// What is below this share of the total is left out of a tree.
const SHARE_MIN: f64 = 0.001;

/// The most nodes of a tree: wide ones lose their smallest.
const NODES_MAX: usize = 3000;

#[derive(Default)]
struct Branch<'p> {
    value: i64,
    children: BTreeMap<&'p str, Branch<'p>>,
}

/// The tree of a profile in preorder, the largest child first.
pub(super) fn pruned(counted: &Counted<'_>) -> Vec<Node> {
    let mut root = Branch::default();
    for sample in &counted.profile.samples {
        let value = counted.value(sample);
        root.value += value;
        let mut at = &mut root;
        for frame in sample.stack.iter().rev() {
            let name = named(&counted.profile.function(*frame).name);
            at = at.children.entry(name).or_default();
            at.value += value;
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
    let kept = branch
        .children
        .iter()
        .filter(|(_, child)| child.value >= least);
    let mut children: Vec<_> = kept.collect();
    children.sort_by_key(|(_, child)| std::cmp::Reverse(child.value));
    for (name, child) in children {
        nodes.push(Node {
            name: (*name).to_owned(),
            depth,
            value: child.value,
        });
        walk(child, depth + 1, least, nodes);
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
        *lines.entry(line).or_default() += sample.values.get(at).copied().unwrap_or(0);
    }
    let mut text = String::new();
    for (line, value) in lines.iter().filter(|(_, value)| **value != 0) {
        text.push_str(&format!("{line} {value}\n"));
    }
    text
}
