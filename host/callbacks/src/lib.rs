//! Webhooks: the service sends the events of a mailbox to the URL of a program. The signatures and
//! the headers follow Standard Webhooks (<https://www.standardwebhooks.com>). The subscriptions of
//! agents (MCP Events) are webhooks with another body and with the secret of the client.
//!
//! Each webhook has at most one job of the runner of jobs, so one host sends the events of a
//! webhook at a time, in their order. The job reads the change log from the position of the webhook
//! ([`latchmail_events::Feed`]) and stores each event as a delivery. The body of a delivery is
//! fixed before the first attempt. The rights of the creator are read again at each attempt.
//!
//! | file | purpose |
//! |---|---|
//! | `webhooks` | creates, lists, changes and deletes webhooks |
//! | `subscriptions` | creates and deletes the subscriptions of agents |
//! | `job` | sends the events of one webhook |
//! | `watch` | starts jobs when mailboxes change |
//! | `content`, `settings` | what the database stores, and the bodies |
//! | `relay` | sends events to a receiver of a developer, for `latchmail listen` |
//! | `sender` | checks receivers, and sends HTTP requests |
//! | `secret` | secrets and signatures |
//! | `schedule` | the times between attempts |

mod content;
mod error;
mod job;
mod relay;
mod schedule;
mod secret;
mod sender;
mod settings;
mod subscriptions;
mod verified;
mod watch;
mod webhooks;

pub use error::Error;
pub use job::{Deliverer, LIMITS};
pub use relay::Relay;
pub use settings::{WebhookChange, WebhookSettings};
pub use subscriptions::{NewSubscription, SubscribeError, Subscribed};
pub use webhooks::{Created, Delivery, Owner, Parts, Webhook, Webhooks};
