//! Decides which changes of one value are undone. The value is the location of a message, one of
//! its flags, a draft or an alias.
//!
//! The changes are read from the newest to the oldest. As long as the value after a change is the
//! value that was found before the next later change, no other client has changed the value in
//! between, and the change is undone. The first difference is a change by another client: this
//! change and all older ones stay, and are conflicts.

use latchmail_directory::grant_changes::State;

/// A value that a grant changed.
pub(super) trait Value: Clone + PartialEq {
    /// Returns `true` if this current value is the result of undoing changes down to `target`.
    fn is_back_at(&self, target: &Self) -> bool {
        self == target
    }
}

impl Value for bool {}

/// A change of a value by a grant.
#[derive(Clone, Debug)]
pub(super) struct Step<V> {
    /// The id of the recorded change.
    pub(super) id: i64,
    pub(super) state: State,
    pub(super) before: V,
    /// The value after the change. `None` if a host stopped before the value was recorded.
    pub(super) after: Option<V>,
    /// The value after the change was undone.
    pub(super) undone: Option<V>,
}

/// What to do about the changes of one value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan<V> {
    /// The changes to undo, and the value to set. `None` if there is nothing to set.
    pub(super) undo: Option<(Vec<i64>, V)>,
    /// The changes that were undone before, or that had no effect.
    pub(super) settled: Vec<i64>,
    /// The changes that stay, because another client has changed the value since.
    pub(super) conflicts: Vec<i64>,
}

/// Plans the undo of changes. `steps` has the newest change first.
pub(super) fn plan<V: Value>(current: &V, steps: &[Step<V>]) -> Plan<V> {
    let mut plan = Plan {
        undo: None,
        settled: Vec::new(),
        conflicts: Vec::new(),
    };
    let (mut value, mut rest) = (current.clone(), steps);
    let mut undone = Vec::new();
    while let Some((step, older)) = rest.split_first() {
        let run = undoing(rest);
        if let Some(last) = run.last()
            && undone.is_empty()
            && current.is_back_at(&last.before)
        {
            // A host stopped after it had undone these changes.
            plan.settled.extend(run.iter().map(|step| step.id));
            (value, rest) = (last.before.clone(), &rest[run.len()..]);
            continue;
        }
        let is_after = step.after.as_ref() == Some(&value);
        match step.state {
            State::Undone if is_after || step.undone.as_ref() == Some(&value) => {}
            State::Begun if value == step.before => plan.settled.push(step.id),
            State::Begun | State::Done | State::Undoing if is_after => undone.push(step.id),
            _ => {
                let stay = rest.iter().filter(|step| step.state != State::Undone);
                plan.conflicts = stay.map(|step| step.id).collect();
                break;
            }
        }
        (value, rest) = (step.before.clone(), older);
    }
    if !undone.is_empty() {
        plan.undo = Some((undone, value));
    }
    plan
}

/// Returns the first steps that were being undone together.
fn undoing<V>(steps: &[Step<V>]) -> &[Step<V>] {
    let count = steps.iter().take_while(|step| step.state == State::Undoing);
    &steps[..count.count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Value for char {}

    /// Returns steps, given as id, state, value before and value after, newest first.
    fn steps(steps: &[(i64, State, &str)]) -> Vec<Step<char>> {
        let step = |(id, state, values): &(i64, State, &str)| {
            let mut values = values.chars();
            Step {
                id: *id,
                state: *state,
                before: values.next().unwrap(),
                after: values.next().filter(|value| *value != '?'),
                undone: values.next(),
            }
        };
        steps.iter().map(step).collect()
    }

    fn planned(current: char, given: &[(i64, State, &str)]) -> (String, Vec<i64>, Vec<i64>) {
        let plan = plan(&current, &steps(given));
        let undo = plan.undo.map(|(ids, value)| format!("{ids:?} {value}"));
        (undo.unwrap_or_default(), plan.settled, plan.conflicts)
    }

    #[test]
    fn adjacent_changes_are_undone_together() {
        let given = [
            (3, State::Done, "cd"),
            (2, State::Done, "bc"),
            (1, State::Done, "ab"),
        ];
        assert_eq!(planned('d', &given), ("[3, 2, 1] a".into(), vec![], vec![]));
    }

    #[test]
    fn a_change_by_another_client_stops_older_undo() {
        let given = [
            (3, State::Done, "xd"),
            (2, State::Done, "bc"),
            (1, State::Done, "ab"),
        ];
        assert_eq!(planned('d', &given), ("[3] x".into(), vec![], vec![2, 1]));
        assert_eq!(planned('e', &given), (String::new(), vec![], vec![3, 2, 1]));
    }

    #[test]
    fn undone_changes_are_followed_to_the_changes_before() {
        let given = [(2, State::Undone, "bcz"), (1, State::Done, "ab")];
        assert_eq!(planned('z', &given), ("[1] a".into(), vec![], vec![]));
        assert_eq!(planned('y', &given), (String::new(), vec![], vec![1]));
    }

    #[test]
    fn an_interrupted_undo_is_continued_or_settled() {
        let given = [(2, State::Undoing, "bc"), (1, State::Undoing, "ab")];
        assert_eq!(planned('a', &given), (String::new(), vec![2, 1], vec![]));
        assert_eq!(planned('c', &given), ("[2, 1] a".into(), vec![], vec![]));
        assert_eq!(planned('x', &given), (String::new(), vec![], vec![2, 1]));
    }

    #[test]
    fn a_change_with_an_unknown_outcome_is_undone_if_it_was_made() {
        let given = [(2, State::Begun, "bc"), (1, State::Done, "ab")];
        assert_eq!(planned('b', &given), ("[1] a".into(), vec![2], vec![]));
        assert_eq!(planned('c', &given), ("[2, 1] a".into(), vec![], vec![]));
        let unknown = [(1, State::Begun, "a?")];
        assert_eq!(planned('z', &unknown), (String::new(), vec![], vec![1]));
    }
}
