//! The types of events.

use crate::named;

named! {
    /// The type of an event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum EventType {
        /// A message was created in a folder.
        MessageCreated = "message.created",
        /// The flags of a message changed.
        MessageFlags = "message.flags",
        /// A message was moved to another folder.
        MessageMoved = "message.moved",
        /// A message was deleted.
        MessageDeleted = "message.deleted",
        /// A folder was created.
        FolderCreated = "folder.created",
        /// A folder was renamed.
        FolderRenamed = "folder.renamed",
        /// A folder was deleted with its messages.
        FolderDeleted = "folder.deleted",
        /// A scheduled message was sent.
        OutboxSent = "outbox.sent",
        /// A scheduled message was not sent, or it is unknown whether it was sent.
        OutboxFailed = "outbox.failed",
        /// A message that the account sent was not delivered to a recipient.
        DeliveryBounced = "delivery.bounced",
        /// The policy of a grant holds a message until the owner decides.
        HoldCreated = "hold.created",
        /// The owner decided about a held message, or the time for the decision passed.
        HoldDecided = "hold.decided",
    }
}
