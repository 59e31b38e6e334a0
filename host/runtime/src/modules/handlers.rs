//! The handlers of a module: the events and the timers that it declares, and the values of a call.
//! [`Module::call_handler`](super::Module::call_handler) runs a call.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use latchmail_bindings::handlers::exports::latchmail::host::handlers as wit;
use latchmail_core::clock::Timestamp;
use latchmail_core::event_type::EventType;
use latchmail_mailbox::Role;
use latchmail_shape::is_module_name;
use serde_json::Value;

use super::schedule::Schedule;
use crate::log_line::to_log_line;

/// The maximum number of sets of events of a module, and the maximum number of its timers. Each
/// timer has a job for each mailbox.
const MAX_EVENT_SETS: usize = 20;
const MAX_TIMERS: usize = 20;

/// The maximum length of the text of a failure, in characters. Longer texts are cut.
const MAX_FAILURE: usize = 1000;

const ROLES: [Role; 8] = [
    Role::Inbox,
    Role::Flagged,
    Role::Sent,
    Role::Drafts,
    Role::All,
    Role::Archive,
    Role::Junk,
    Role::Trash,
];

/// The events and the timers of a module. There is at least one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriptions {
    /// The sets of events.
    pub events: Vec<EventSubscription>,
    /// The timers, with unique names.
    pub timers: Vec<Timer>,
}

/// A set of events that a module handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSubscription {
    /// The types of the events. Empty for all types.
    pub types: Vec<EventType>,
    /// The role of the folders whose events the module handles, for example `\Inbox`. `None` for
    /// all folders.
    pub folder_role: Option<String>,
}

/// A timer of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The name: 1 to 32 lower-case letters, digits and hyphens.
    pub name: String,
    /// The due times.
    pub schedule: Schedule,
}

/// The cause of a call of a handler.
#[derive(Clone, Copy, Debug)]
pub enum Trigger<'a> {
    /// An event of the mailbox.
    Event {
        /// The id.
        id: &'a str,
        /// The type.
        kind: &'static str,
        /// The time.
        time: Timestamp,
        /// The details.
        data: &'a Value,
    },
    /// The timer with this name.
    Timer(&'a str),
}

/// The result of a call of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerOutcome {
    /// The call is done.
    Done,
    /// The call must be repeated after this time.
    Retry(Duration),
    /// The module cannot continue. The text has at most 1,000 characters, without control
    /// characters.
    Failed(String),
}

impl Trigger<'_> {
    /// Returns the id of the call for the log, in place of the id of a request.
    pub(super) fn call_id(&self) -> String {
        match self {
            Self::Event { id, .. } => format!("event-{id}"),
            Self::Timer(name) => format!("timer-{name}"),
        }
    }
}

impl fmt::Display for EventSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.types.is_empty() {
            f.write_str("all events")?;
        } else {
            let types: Vec<_> = self.types.iter().map(|one| one.name()).collect();
            write!(f, "the events {}", types.join(", "))?;
        }
        match &self.folder_role {
            Some(role) => write!(f, " in folders with the role {role}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.schedule)
    }
}

/// Converts and checks the subscriptions of a module. The error is a phrase that follows the name
/// of the module.
pub(super) fn subscriptions(set: wit::SubscriptionSet) -> Result<Subscriptions, String> {
    let (events, timers) = (set.events, set.timers);
    if events.is_empty() && timers.is_empty() {
        return Err("its handlers have no events and no timers".into());
    }
    for (what, number, max) in [
        ("sets of events", events.len(), MAX_EVENT_SETS),
        ("timers", timers.len(), MAX_TIMERS),
    ] {
        if number > max {
            return Err(format!(
                "its handlers have {number} {what}; the maximum is {max}"
            ));
        }
    }
    let timers: Vec<Timer> = timers.into_iter().map(timer).collect::<Result<_, _>>()?;
    let mut names = BTreeSet::new();
    if let Some(timer) = timers.iter().find(|timer| !names.insert(&timer.name)) {
        return Err(format!("it has two timers with the name `{}`", timer.name));
    }
    Ok(Subscriptions {
        events: events
            .into_iter()
            .map(event_subscription)
            .collect::<Result<_, _>>()?,
        timers,
    })
}

fn event_subscription(set: wit::EventSubscription) -> Result<EventSubscription, String> {
    let event_type = |name: &String| {
        EventType::named(name).ok_or_else(|| {
            format!("it handles the event type {name:?}, which this host does not know")
        })
    };
    if let Some(role) = &set.folder_role
        && !ROLES.iter().any(|known| known.name() == role)
    {
        return Err(format!(
            "it handles events of folders with the role {role:?}, which this host does not know"
        ));
    }
    Ok(EventSubscription {
        types: set.types.iter().map(event_type).collect::<Result<_, _>>()?,
        folder_role: set.folder_role,
    })
}

fn timer(timer: wit::Timer) -> Result<Timer, String> {
    let name = timer.name;
    if !is_module_name(&name) {
        return Err(format!(
            "it has the timer {name:?}, whose name is not 1 to 32 lower-case letters, digits and hyphens"
        ));
    }
    let schedule = match (timer.every, timer.cron) {
        (Some(seconds), None) => Schedule::every(seconds),
        (None, Some(cron)) => Schedule::cron(&cron),
        (None, None) => Err("has neither an interval nor a cron expression".into()),
        (Some(_), Some(_)) => Err("has both an interval and a cron expression".into()),
    };
    match schedule {
        Ok(schedule) => Ok(Timer { name, schedule }),
        Err(reason) => Err(format!("its timer `{name}` {reason}")),
    }
}

/// Converts the result of a call.
pub(super) fn outcome(outcome: wit::Outcome) -> HandlerOutcome {
    match outcome {
        wit::Outcome::Done => HandlerOutcome::Done,
        wit::Outcome::Retry(seconds) => HandlerOutcome::Retry(Duration::from_secs(seconds.into())),
        wit::Outcome::Failed(text) => {
            let text = to_log_line(&text).chars().take(MAX_FAILURE).collect();
            HandlerOutcome::Failed(text)
        }
    }
}

/// Converts an event for the module.
pub(super) fn event(id: &str, kind: &str, time: Timestamp, data: &Value) -> wit::Event {
    wit::Event {
        id: id.into(),
        kind: kind.into(),
        time: time.millis(),
        data: data.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(name: &str, seconds: u32) -> wit::Timer {
        wit::Timer {
            name: name.into(),
            every: Some(seconds),
            cron: None,
        }
    }

    fn events(types: &[&str], role: Option<&str>) -> wit::EventSubscription {
        wit::EventSubscription {
            types: types.iter().map(|name| (*name).into()).collect(),
            folder_role: role.map(Into::into),
        }
    }

    fn check(
        events: Vec<wit::EventSubscription>,
        timers: Vec<wit::Timer>,
    ) -> Result<Subscriptions, String> {
        subscriptions(wit::SubscriptionSet { events, timers })
    }

    #[test]
    fn events_and_timers_are_described_for_the_operator() {
        let cron = wit::Timer {
            every: None,
            cron: Some("0 7 * * mon".into()),
            ..every("weekly", 0)
        };
        let sets = vec![
            events(&["message.created", "message.moved"], Some("\\Inbox")),
            events(&[], None),
        ];
        let checked = check(sets, vec![every("tick", 5), cron]).unwrap();
        let sets: Vec<String> = checked.events.iter().map(ToString::to_string).collect();
        assert_eq!(
            sets,
            [
                "the events message.created, message.moved in folders with the role \\Inbox",
                "all events"
            ]
        );
        let timers: Vec<String> = checked.timers.iter().map(ToString::to_string).collect();
        assert_eq!(timers, ["tick every 5 s", "weekly at 0 7 * * mon (UTC)"]);
    }

    #[test]
    fn invalid_subscriptions_are_refused_with_the_reason() {
        let both = wit::Timer {
            cron: Some("* * * * *".into()),
            ..every("both", 60)
        };
        let neither = wit::Timer {
            every: None,
            ..every("neither", 60)
        };
        let all = || events(&[], None);
        let many = |number: usize| (0..number).map(|n| every(&format!("t{n}"), 60)).collect();
        for (sets, timers, reason) in [
            (vec![], vec![], "no events and no timers"),
            (
                vec![events(&["message.read"], None)],
                vec![],
                "message.read",
            ),
            (
                vec![events(&[], Some("Inbox"))],
                vec![],
                "the role \"Inbox\"",
            ),
            (vec![all(); 21], vec![], "21 sets of events"),
            (vec![], many(21), "21 timers"),
            (
                vec![],
                vec![every("tick", 4)],
                "`tick` has an interval of 4 s",
            ),
            (vec![], vec![every("Tick", 5)], "the timer \"Tick\""),
            (vec![], vec![every("a", 5), every("a", 9)], "two timers"),
            (vec![], vec![both], "`both` has both"),
            (vec![], vec![neither], "`neither` has neither"),
        ] {
            let error = check(sets, timers).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn the_text_of_a_failure_has_one_line_of_limited_length() {
        let text = "a\n".to_owned() + &"b".repeat(5000);
        let HandlerOutcome::Failed(text) = outcome(wit::Outcome::Failed(text)) else {
            panic!("not a failure");
        };
        assert!(!text.contains('\n'));
        assert_eq!(text.chars().count(), MAX_FAILURE);
    }
}
