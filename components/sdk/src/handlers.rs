//! Handlers: functions that the host calls without a request, on events of mailboxes and at set
//! times.

use serde_json::Value;

use crate::bindings::event_handlers::exports::latchmail::host::handlers as wit;
pub use crate::bindings::event_handlers::exports::latchmail::host::handlers::{Event, Outcome};
use crate::capability::{ConditionalError, Error};

/// The delay before a call is repeated that failed temporarily, in seconds.
const RETRY: u32 = 60;
/// The delay before a call is repeated whose message has changed, in seconds.
const RETRY_CHANGED: u32 = 1;

/// A function that handles an event.
pub type EventHandler<H> = fn(&H, &Event) -> Outcome;

/// A function that handles a timer.
pub type TimerHandler<H> = fn(&H) -> Outcome;

/// The handlers of a module.
///
/// The host calls a handler only for a mailbox whose owner has enabled the module. The caller is
/// the owner, with the scopes that the operator granted to the module. An event can arrive more
/// than once with the same id, so a handler must be able to handle an event again.
///
/// ```
/// use latchmail_sdk::capability::Mailbox;
/// use latchmail_sdk::testing::{FakeHost, Letter, event};
/// use latchmail_sdk::{Event, Handlers, Outcome};
/// use serde_json::json;
///
/// /// Moves each new message to the folder `Work`.
/// fn file(host: &impl Mailbox, event: &Event) -> Outcome {
///     let Some(uid) = event.json()["uid"].as_u64() else {
///         return Outcome::Done;
///     };
///     let moved = host.move_messages(&[uid], "Work", None);
///     if moved.is_ok() { Outcome::Done } else { Outcome::Retry(60) }
/// }
///
/// fn handlers<H: Mailbox>() -> Handlers<H> {
///     Handlers::new()
///         .events(&["message.created"], Some("\\Inbox"))
///         .on_event(file)
/// }
///
/// latchmail_sdk::export_handlers!(handlers);
///
/// let host = FakeHost::new();
/// host.create_folder("Work").unwrap();
/// let uid = host.deliver(Letter::from("grace@example.org"));
/// let created = event("message.created", &json!({ "uid": uid }));
/// assert_eq!(handlers().handle_event(&host, &created), Outcome::Done);
/// ```
#[derive(Clone)]
pub struct Handlers<H> {
    events: Vec<(&'static [&'static str], Option<&'static str>)>,
    on_event: Option<EventHandler<H>>,
    timers: Vec<Timer<H>>,
}

#[derive(Clone)]
struct Timer<H> {
    name: &'static str,
    every: Option<u32>,
    cron: Option<&'static str>,
    handler: TimerHandler<H>,
}

impl<H> Default for Handlers<H> {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            on_event: None,
            timers: Vec::new(),
        }
    }
}

impl<H> Handlers<H> {
    /// Creates an empty list. The host refuses a module without events and timers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a set of events. `types` are the types of the events, or empty for all types. With
    /// `folder_role`, for example `\Inbox`, only events of folders with this role are in the set.
    #[must_use]
    pub fn events(
        mut self,
        types: &'static [&'static str],
        folder_role: Option<&'static str>,
    ) -> Self {
        self.events.push((types, folder_role));
        self
    }

    /// Sets the function that handles the events of all sets.
    #[must_use]
    pub fn on_event(mut self, handler: EventHandler<H>) -> Self {
        self.on_event = Some(handler);
        self
    }

    /// Adds a timer that is due once in each interval of `seconds`, which must be at least 5. Each
    /// mailbox has its own offset in the interval.
    #[must_use]
    pub fn every(self, name: &'static str, seconds: u32, handler: TimerHandler<H>) -> Self {
        self.timer(name, Some(seconds), None, handler)
    }

    /// Adds a timer with a cron expression in UTC, for example `0 7 * * mon-fri`.
    #[must_use]
    pub fn cron(self, name: &'static str, cron: &'static str, handler: TimerHandler<H>) -> Self {
        self.timer(name, None, Some(cron), handler)
    }

    fn timer(
        mut self,
        name: &'static str,
        every: Option<u32>,
        cron: Option<&'static str>,
        handler: TimerHandler<H>,
    ) -> Self {
        self.timers.push(Timer {
            name,
            every,
            cron,
            handler,
        });
        self
    }

    /// Returns the events and the timers for the host.
    #[must_use]
    pub fn subscriptions(&self) -> wit::SubscriptionSet {
        let events = self.events.iter().map(|(types, role)| {
            let types = types.iter().map(|name| (*name).into());
            wit::EventSubscription {
                types: types.collect(),
                folder_role: role.map(Into::into),
            }
        });
        let timers = self.timers.iter().map(|timer| wit::Timer {
            name: timer.name.into(),
            every: timer.every,
            cron: timer.cron.map(Into::into),
        });
        wit::SubscriptionSet {
            events: events.collect(),
            timers: timers.collect(),
        }
    }

    /// Handles an event. Fails if there is no function for events.
    #[must_use]
    pub fn handle_event(&self, host: &H, event: &Event) -> Outcome {
        match self.on_event {
            Some(handler) => handler(host, event),
            None => Outcome::Failed("the module has no function for events".into()),
        }
    }

    /// Handles a timer. Fails if there is no timer with this name.
    #[must_use]
    pub fn handle_timer(&self, host: &H, name: &str) -> Outcome {
        match self.timers.iter().find(|timer| timer.name == name) {
            Some(timer) => (timer.handler)(host),
            None => Outcome::Failed(format!("the module has no timer {name:?}")),
        }
    }
}

impl Event {
    /// Returns the details as a JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Done, Self::Done) => true,
            (Self::Retry(seconds), Self::Retry(other)) => seconds == other,
            (Self::Failed(text), Self::Failed(other)) => text == other,
            _ => false,
        }
    }
}

impl Eq for Outcome {}

/// The outcome for a capability's error: `Done` if the object does not exist anymore, `Retry` in a
/// minute if the call can succeed later, and `Failed` for errors of the module or its permissions.
impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => Self::Done,
            Error::Denied(problem)
            | Error::Invalid(problem)
            | Error::Conflict(problem)
            | Error::TooLarge(problem)
            | Error::Rejected(problem) => Self::Failed(problem.text),
            Error::CredentialRefused
            | Error::Unavailable
            | Error::OutcomeUnknown
            | Error::Internal
            | Error::OverQuota => Self::Retry(RETRY),
        }
    }
}

/// The outcome for an error of a change. `Retry` in a second if the message has another version, so
/// that the handler reads the message again. Otherwise the outcome for the error.
impl From<ConditionalError> for Outcome {
    fn from(error: ConditionalError) -> Self {
        match error {
            ConditionalError::VersionMismatch => Self::Retry(RETRY_CHANGED),
            ConditionalError::Failed(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capability::{Caller, Credentials as _, Log, Scope};
    use crate::testing::{FakeHost, event, use_handler};

    fn on_event(host: &impl Log, event: &Event) -> Outcome {
        host.write(crate::capability::Level::Info, &event.kind);
        match event.json()["retry"].as_u64() {
            Some(_) => Outcome::Retry(5),
            None => Outcome::Done,
        }
    }

    fn tick(host: &impl Caller) -> Outcome {
        Outcome::Failed(host.current().address)
    }

    fn handlers<H: Caller + Log>() -> Handlers<H> {
        Handlers::new()
            .events(&["message.created"], Some("\\Inbox"))
            .events(&[], None)
            .on_event(on_event)
            .every("tick", 60, tick)
            .cron("daily", "0 7 * * *", tick)
    }

    #[test]
    fn the_host_receives_the_events_and_the_timers() {
        let set = handlers::<FakeHost>().subscriptions();
        assert_eq!(set.events[0].types, ["message.created"]);
        assert_eq!(set.events[0].folder_role.as_deref(), Some("\\Inbox"));
        assert!(set.events[1].types.is_empty());
        let timers: Vec<_> = set.timers.iter().map(|t| (&*t.name, t.every)).collect();
        assert_eq!(timers, [("tick", Some(60)), ("daily", None)]);
        assert_eq!(set.timers[1].cron.as_deref(), Some("0 7 * * *"));
    }

    #[test]
    fn events_and_timers_reach_their_functions() {
        let (host, handlers) = (FakeHost::new(), handlers());
        let created = event("message.created", &json!({}));
        assert_eq!(handlers.handle_event(&host, &created), Outcome::Done);
        let later = event("message.moved", &json!({ "retry": 1 }));
        assert_eq!(handlers.handle_event(&host, &later), Outcome::Retry(5));
        assert_eq!(host.log().len(), 2);
        let ada = Outcome::Failed("ada@example.test".into());
        assert_eq!(handlers.handle_timer(&host, "daily"), ada);
        let unknown = handlers.handle_timer(&host, "hourly");
        assert!(matches!(unknown, Outcome::Failed(text) if text.contains("hourly")));
    }

    #[test]
    fn a_change_of_another_version_is_tried_again() {
        let mismatch = Outcome::from(ConditionalError::VersionMismatch);
        assert_eq!(mismatch, Outcome::Retry(1));
        let deleted = ConditionalError::Failed(Error::NotFound);
        assert_eq!(Outcome::from(deleted), Outcome::Done);
    }

    #[test]
    fn the_caller_of_a_handler_has_only_the_granted_scopes() {
        let host = FakeHost::new();
        assert!(!host.is_handler());
        use_handler(&host, &[Scope::MailRead]);
        assert!(host.is_handler());
        assert_eq!(host.current().scopes, ["mail:read"]);
        assert!(matches!(host.list_tokens(), Err(Error::Denied(_))));
        host.sign_in("ada@example.test");
        assert!(!host.is_handler());
        assert!(host.list_tokens().is_ok());
    }
}
