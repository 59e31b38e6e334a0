//! Sends the events of one webhook, in their order.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::clock::Timestamp;
use latchmail_core::secrets;
use latchmail_core::traces::{Kind, Span};
use latchmail_directory::webhooks::{self as directory, Attempt, NewDelivery, Outcome as Sent};
use latchmail_events::{Event, EventPage};
use latchmail_jobs::{Handler, Job, Limits, Outcome, Step, busy_wait, run_steps};
use latchmail_mailbox::Access;
use latchmail_mailbox::changelog::{cursor_row, reads_the_same};
use tokio::time::{Instant, interval_at};

use crate::content::{Content, Format};
use crate::error::Error;
use crate::schedule::{MAX_FAILING, MIN_FAILURES, is_early, wait};
use crate::sender::{Message, Refusal};
use crate::settings::{Payload, StoredSettings};
use crate::subscriptions::MAX_OF_ACCOUNT;
use crate::webhooks::{KIND, MAX_WEBHOOKS, Webhooks};

/// The limits of the runner that sends events. An attempt takes up to ten seconds, so events need a
/// runner of their own. Each webhook and each subscription has one job, so with this limit of an
/// account, a receiver that hangs delays no other receiver.
pub const LIMITS: Limits = Limits {
    running: 512,
    of_account: MAX_WEBHOOKS + MAX_OF_ACCOUNT,
    lease: Duration::from_secs(6),
};
/// Maximum number of events that are read from the change log at a time.
const PAGE: usize = 50;
/// The interval at which a running attempt ends if the webhook was changed, or if another event is
/// sent again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which every host knows that a credential is suspended. The host that watches the
/// mailbox starts the job of a resumed credential, but does not notice a shorter suspension.
const SUSPENSION: Duration = Duration::from_secs(5);
/// The reasons why the service disables a webhook.
const NO_FOLDER: &str = "The folder does not exist any longer";
const NO_RIGHT: &str = "The member has no right to read mail any longer";
const NO_ACCESS: &str = "The mailbox is not shared with the member any longer";
/// The type of the event that reports lost events.
const GAP: &str = "webhook.gap";

/// Sends the events of webhooks.
#[derive(Debug)]
pub struct Deliverer(pub Arc<Webhooks>);

impl Handler for Deliverer {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let (trace, mut span) = self.0.tracer.begin_work(|| "webhook job".into());
        span.set("latchmail.webhook.id", &job.key);
        let (webhooks, id) = (&self.0, &*job.key);
        let step = move |now| webhooks.step(id, now).boxed();
        let steps = run_steps(&webhooks.jobs, job, &webhooks.stopping, span, step);
        trace.scope(steps).boxed()
    }
}

impl Webhooks {
    /// Does the next step for a webhook. All rights are read again.
    async fn step(&self, id: &str, now: Timestamp) -> Result<Step, Error> {
        let checked_at = Instant::now();
        let mut grants = self.grants.subscribe();
        let webhook = self.stored.find(id, now).await?;
        let Some(webhook) = webhook.filter(directory::Webhook::is_active) else {
            return Ok(Step::Done);
        };
        if !webhook.may_send() {
            let suspended = webhook.suspended_at().map(|at| now.since(at));
            return Ok(match suspended {
                Some(time) if time < SUSPENSION => Step::At(now.plus(SUSPENSION)),
                _ => Step::Done,
            });
        }
        let Some(access) = self.access(&webhook).await? else {
            return self.end_without_access(&webhook, now).await;
        };
        let settings = self.open(&webhook)?;
        let Some(delivery) = self.stored.next_delivery(id).await? else {
            return self.read_events(&webhook, &settings, &access, now).await;
        };
        if let Some(next_at) = delivery.next_at()
            && is_early(next_at.since(now), delivery.attempts)
        {
            return Ok(Step::At(next_at));
        }
        let permit = self.sender.permit(&webhook.account, &settings.settings.url);
        let Ok(_permit) = permit else {
            let due_at = delivery.next_at().unwrap_or(now);
            let wait = busy_wait(now.since(due_at), secrets::random::<1>()?[0]);
            return Ok(Step::At(now.plus(wait)));
        };
        let mut span = Span::start(Kind::Internal, || "webhook attempt".into()).entered();
        span.set("latchmail.event.type", &delivery.event_type);
        span.set_number("latchmail.attempt", delivery.attempts + 1);
        let content = self.fixed(&webhook, &delivery, &access).await?;
        let Some(content) = content else {
            let reason = "The rights of the member have changed";
            self.stored.discard(&delivery.id, reason).await?;
            return Ok(Step::Continue);
        };
        let secrets = settings.secrets(now);
        let sending = self.sender.send(Message {
            url: &settings.settings.url,
            id: &delivery.event_id,
            secrets: &secrets,
            subscription: webhook.subscription.as_deref(),
            body: content.body().unwrap_or_default(),
        });
        let connections = &self.mail.connections;
        let ended = connections.ended_credentials();
        let ended = ended.register(&webhook.app_password, checked_at);
        let mut sending = pin!(sending);
        let mut checks = interval_at(checked_at + CHECK_INTERVAL, CHECK_INTERVAL);
        let sent = loop {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return Ok(Step::At(now)),
                () = ended.stop().cancelled() => return Ok(Step::Continue),
                // The sender is in `self`, so the channel is open.
                _ = grants.changed() => {
                    let current = self.access(&webhook).await?;
                    if current.is_none_or(|current| !reads_the_same(&current, &access)) {
                        return Ok(Step::Continue);
                    }
                }
                _ = checks.tick() => {
                    // An error is no reason to end an attempt.
                    if let Ok(next) = self.stored.next_delivery(id).await
                        && next.is_none_or(|next| !next.is_same_attempt(&delivery))
                    {
                        return Ok(Step::Continue);
                    }
                }
                sent = &mut sending => break sent,
            }
        };
        let sent = sent.map(|response| response.status.as_u16());
        self.record(&webhook, &delivery, sent).await
    }

    /// Returns the current access of the creator. Returns `None` if the creator has no access.
    pub(crate) async fn access(
        &self,
        webhook: &directory::Webhook,
    ) -> Result<Option<Access>, Error> {
        let member = (webhook.account != webhook.mailbox).then_some(&*webhook.account);
        let access = self.rights.access(&webhook.mailbox, member).await?;
        let now = self.jobs.now().await?;
        let grant = webhook.grant();
        let policy = grant.as_ref().and_then(|grant| grant.policy.as_ref());
        if policy.is_some_and(|policy| policy.is_over(now)) {
            return Ok(None);
        }
        Ok(access.map(|access| Access {
            grant: grant.map(Arc::new),
            ..access
        }))
    }

    /// Disables the webhook of a member who lost the access to the mailbox. If the owner of the
    /// mailbox is disabled, the webhooks only pause.
    async fn end_without_access(
        &self,
        webhook: &directory::Webhook,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let is_own = webhook.account == webhook.mailbox;
        if is_own || self.rights.access(&webhook.mailbox, None).await?.is_none() {
            return Ok(Step::Done);
        }
        self.disable(webhook, NO_ACCESS, now).await
    }

    async fn disable(
        &self,
        webhook: &directory::Webhook,
        reason: &str,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let is_disabled = self.stored.disable(webhook, reason, now).await?;
        Ok(if is_disabled {
            Step::Done
        } else {
            Step::Continue
        })
    }

    /// Reads at most `limit` events after a cursor. Disables the webhook and returns the next step
    /// if the folder does not exist, or if the member has no right to read mail.
    async fn read_page(
        &self,
        webhook: &directory::Webhook,
        (settings, access, now): (&StoredSettings, &Access, Timestamp),
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ControlFlow<Step, EventPage>, Error> {
        let filter = settings.settings.filter().map_err(Error::Invalid)?;
        let reason = match self.feed.read(access, cursor, &filter, limit).await {
            Ok(Some(page)) => return Ok(ControlFlow::Continue(page)),
            Ok(None) => NO_FOLDER,
            Err(latchmail_mailbox::Error::Denied(_)) => NO_RIGHT,
            Err(error) => return Err(error.into()),
        };
        Ok(ControlFlow::Break(
            self.disable(webhook, reason, now).await?,
        ))
    }

    /// Stores the next events as deliveries.
    async fn read_events(
        &self,
        webhook: &directory::Webhook,
        settings: &StoredSettings,
        access: &Access,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let cursor = webhook.cursor.as_deref();
        let reading = (settings, access, now);
        let page = match self.read_page(webhook, reading, cursor, PAGE).await {
            Ok(ControlFlow::Continue(page)) => page,
            Ok(ControlFlow::Break(step)) => return Ok(step),
            Err(Error::Mailbox(latchmail_mailbox::Error::CursorExpired)) => {
                return self.skip(webhook, settings, access, now).await;
            }
            Err(error) => return Err(error),
        };
        let rights = cursor_row(access);
        let with_summary = settings.settings.payload().map_err(Error::Invalid)? == Payload::Summary;
        let format = format(webhook);
        let contents = page.events.into_iter().map(|event: Event| {
            let head = (event.id.clone(), event.kind.name());
            (
                head,
                Content::of(event, rights.clone(), with_summary, format),
            )
        });
        let mut rows = Vec::new();
        for ((event, kind), content) in contents {
            let id = secrets::id()?;
            let sealed = content.seal(&self.keys, &id)?;
            rows.push((id, event, kind, sealed));
        }
        let deliveries = rows.iter().map(|(id, event, kind, sealed)| NewDelivery {
            id,
            event_id: event,
            event_type: kind,
            sealed_body: sealed,
        });
        let deliveries: Vec<_> = deliveries.collect();
        if deliveries.is_empty() && cursor == Some(&*page.cursor) {
            return Ok(if page.more {
                Step::Continue
            } else {
                Step::Done
            });
        }
        let stored = &self.stored;
        // Another host can do the step at the same time, if this host has lost its lease.
        let advanced = stored
            .advance(webhook, &page.cursor, &deliveries, now)
            .await?;
        let is_done = advanced && deliveries.is_empty() && !page.more;
        Ok(if is_done { Step::Done } else { Step::Continue })
    }

    /// Continues with the current position of the change log, because the changes since the old
    /// position are not known any longer or the rights of the member have changed. The receiver
    /// gets an event that reports the gap.
    async fn skip(
        &self,
        webhook: &directory::Webhook,
        settings: &StoredSettings,
        access: &Access,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let reading = (settings, access, now);
        let cursor = match self.read_page(webhook, reading, None, 1).await? {
            ControlFlow::Continue(page) => page.cursor,
            ControlFlow::Break(step) => return Ok(step),
        };
        let (id, gap) = (secrets::id()?, secrets::id()?);
        let (event, content) = if webhook.subscription.is_some() {
            // Clients refuse a gap without the text of a cursor.
            let body = serde_json::json!({ "type": "gap", "cursor": cursor });
            (format!("msg_gap_{gap}"), Content::of_control(&body))
        } else {
            let event = format!("gap_{gap}");
            let content = Content::of_service(&event, GAP, now);
            (event, content)
        };
        let gap = NewDelivery {
            id: &id,
            event_id: &event,
            event_type: GAP,
            sealed_body: &content.seal(&self.keys, &id)?,
        };
        self.stored.advance(webhook, &cursor, &[gap], now).await?;
        Ok(Step::Continue)
    }

    /// Fixes the body of a delivery. Returns `None` if the member has other rights than at the time
    /// of the event.
    async fn fixed(
        &self,
        webhook: &directory::Webhook,
        delivery: &directory::Delivery,
        access: &Access,
    ) -> Result<Option<Content>, Error> {
        let content = Content::open(&self.keys, &delivery.id, &delivery.sealed_body)?;
        if !content.rights.is_empty() && content.rights != cursor_row(access) {
            return Ok(None);
        }
        let Some(message) = content.missing_summary() else {
            return Ok(Some(content));
        };
        let found = self.mail.listing.by_numbers(access, &[message]).await?;
        let summary = found.first().map(|hit| &hit.summary);
        let content = content.fixed(summary, format(webhook));
        let sealed = content.seal(&self.keys, &delivery.id)?;
        self.stored.set_body(&delivery.id, &sealed).await?;
        Ok(Some(content))
    }

    /// Records the outcome of an attempt. `sent` is the status of the response.
    async fn record(
        &self,
        webhook: &directory::Webhook,
        delivery: &directory::Delivery,
        sent: Result<u16, Refusal>,
    ) -> Result<Step, Error> {
        let now = self.jobs.now().await?;
        let refusal = match sent {
            Ok(status) => {
                let outcome = Sent {
                    attempt: Attempt::Delivered,
                    status: Some(status),
                    error: None,
                };
                let recorded = self.stored.attempted(&webhook.id, delivery, outcome, now);
                recorded.await?;
                return Ok(Step::Continue);
            }
            Err(refusal) => refusal,
        };
        let status = refusal.status().map(|status| status.as_u16());
        let jitter = secrets::random::<1>()?[0];
        let is_control = webhook.subscription.is_some() && delivery.event_type == GAP;
        let attempt = match status {
            Some(410) => Attempt::Failed,
            Some(413) => Attempt::Refused,
            // A client that does not know the message must not block the events that follow.
            Some(400..=407 | 409..=424) if is_control => Attempt::Refused,
            _ => wait(delivery.attempts + 1, jitter)
                .map_or(Attempt::Failed, |wait| Attempt::Retry(now.plus(wait))),
        };
        let text = refusal.text();
        let outcome = Sent {
            attempt,
            status,
            error: Some(&text),
        };
        let recorded = self.stored.attempted(&webhook.id, delivery, outcome, now);
        recorded.await?;
        if status == Some(410) {
            return self.disable(webhook, &text, now).await;
        }
        if attempt == Attempt::Refused {
            return Ok(Step::Continue);
        }
        let failing_since = webhook.failing_since();
        if delivery.attempts + 1 >= MIN_FAILURES
            && failing_since.is_some_and(|since| now.since(since) >= MAX_FAILING)
        {
            let reason = format!("The receiver accepted no event for three days. {text}");
            return self.disable(webhook, &reason, now).await;
        }
        // The next step waits, unless the webhook was changed or another event is sent again.
        Ok(Step::Continue)
    }
}

fn format(webhook: &directory::Webhook) -> Format {
    match webhook.subscription {
        None => Format::Webhook,
        Some(_) => Format::Subscription,
    }
}
