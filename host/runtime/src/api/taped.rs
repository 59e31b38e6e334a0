//! The host functions as components call them. In most calls, each function only calls the function
//! of [`Call`] with the same name. While the call is recorded or replayed ([`super::tape`]), the
//! result is also recorded, or comes from the recording.
//!
//! The functions of blobs, streams, settings and the log are not recorded. They act on the handles
//! of the call, and reach no service. The requests of `wasi:http` ([`super::outgoing_http`]) are
//! not recorded either: only mounted components can send them, and neither calls of mounted
//! components nor calls of handlers are recorded or replayed.

use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::latchmail::host::{
    aliases, blobs, caller, compose, config, credentials, deliveries, domains, drafts, filters,
    http_client, log, mailbox, modules, outbox, profile, queries, store, streams, subscriptions,
    teams, types, webhooks,
};
use latchmail_bindings::{Blob, EventStream, HostError};
use wasmtime::component::{HasData, Resource};

use super::call::Call;
use super::tape::{Key, Plain, Recordable, Tape, WithHandles};

/// The host functions of a call.
pub(crate) struct Taped<'a>(pub(crate) &'a mut Call);

/// The type with which a linker finds [`Taped`].
pub(crate) struct HasTaped;

impl HasData for HasTaped {
    type Data<'a> = Taped<'a>;
}

/// The result of a host function.
type Outcome<T, E = Error> = Result<T, HostError<E>>;

impl Taped<'_> {
    /// Returns the identity of a host call, if the call is recorded or replayed.
    fn key(&self, function: &'static str, arguments: &dyn std::fmt::Debug) -> Option<Key> {
        self.0.tape.is_on().then(|| Key::new(function, arguments))
    }

    /// Returns the recorded result in a replay. Returns `None` in all other calls.
    fn replayed<M, R: Recordable<M>>(&mut self, key: Option<Key>) -> Option<R> {
        let Call { tape, table, .. } = &mut *self.0;
        match (tape, key) {
            (Tape::Replay(replay), Some(key)) => Some(replay.replay::<M, R>(key, table)),
            _ => None,
        }
    }

    /// Records a result, if the call is recorded.
    fn record<M, R: Recordable<M>>(&mut self, key: Option<Key>, result: &R) {
        let Call { tape, table, .. } = &mut *self.0;
        if let (Tape::Recording(recording), Some(key)) = (tape, key) {
            recording.record::<M, R>(key, result, table);
        }
    }
}

/// Defines functions whose results are recorded.
macro_rules! functions {
    ($interface:ident, $mode:ty;
        $($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        $(async fn $name(&mut self, $($argument: $type),*) -> $result {
            let function = concat!(stringify!($interface), ".", stringify!($name));
            let key = self.key(function, &($(&$argument,)*));
            if let Some(result) = self.replayed::<$mode, _>(key) {
                return result;
            }
            let result = $interface::Host::$name(&mut *self.0, $($argument),*).await;
            self.record::<$mode, _>(key, &result);
            result
        })*
    };
}

/// Defines the conversions of errors for guests.
macro_rules! conversions {
    ($($name:ident: $error:ty;)*) => {
        $(fn $name(&mut self, error: HostError<$error>) -> wasmtime::Result<$error> {
            error.into_guest()
        })*
    };
}

impl types::Host for Taped<'_> {
    conversions! {
        convert_error: Error;
    }
}

impl blobs::Host for Taped<'_> {
    async fn create(&mut self, bytes: Vec<u8>) -> Outcome<Resource<Blob>> {
        blobs::Host::create(&mut *self.0, bytes).await
    }

    async fn decode(
        &mut self,
        encoded: Resource<Blob>,
        encoding: String,
    ) -> Outcome<Resource<Blob>> {
        blobs::Host::decode(&mut *self.0, encoded, encoding).await
    }

    async fn insert_json_string(&mut self, offset: u32, text: Resource<Blob>) -> Outcome<()> {
        blobs::Host::insert_json_string(&mut *self.0, offset, text).await
    }
}

impl blobs::HostBlob for Taped<'_> {
    async fn size(&mut self, blob: Resource<Blob>) -> wasmtime::Result<u64> {
        blobs::HostBlob::size(&mut *self.0, blob).await
    }

    async fn read(&mut self, blob: Resource<Blob>, offset: u64, length: u32) -> Outcome<Vec<u8>> {
        blobs::HostBlob::read(&mut *self.0, blob, offset, length).await
    }

    async fn slice(
        &mut self,
        blob: Resource<Blob>,
        offset: u64,
        length: u64,
    ) -> wasmtime::Result<Resource<Blob>> {
        blobs::HostBlob::slice(&mut *self.0, blob, offset, length).await
    }

    async fn drop(&mut self, blob: Resource<Blob>) -> wasmtime::Result<()> {
        blobs::HostBlob::drop(&mut *self.0, blob).await
    }
}

impl streams::Host for Taped<'_> {}

impl streams::HostEventStream for Taped<'_> {
    async fn drop(&mut self, stream: Resource<EventStream>) -> wasmtime::Result<()> {
        streams::HostEventStream::drop(&mut *self.0, stream).await
    }
}

impl config::Host for Taped<'_> {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        config::Host::get(&mut *self.0, key).await
    }

    async fn all(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        config::Host::all(&mut *self.0).await
    }
}

impl log::Host for Taped<'_> {
    /// Writes nothing in a replay.
    async fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        if self.0.tape.is_replay() {
            return Ok(());
        }
        log::Host::write(&mut *self.0, level, message).await
    }
}

impl aliases::Host for Taped<'_> {
    functions! { aliases, Plain;
        list() -> Outcome<Vec<aliases::Alias>>;
        domains() -> Outcome<Vec<String>>;
        create(name: String, domain: String) -> Outcome<aliases::Alias>;
        check(name: String, domain: String) -> Outcome<()>;
        update(id: u64, change: aliases::AliasChange) -> Outcome<aliases::Alias>;
        delete(id: u64) -> Outcome<()>;
    }
}

impl caller::Host for Taped<'_> {
    functions! { caller, Plain;
        current() -> wasmtime::Result<caller::Identity>;
        is_handler() -> wasmtime::Result<bool>;
        present_code(code: String) -> wasmtime::Result<()>;
    }
}

impl compose::Host for Taped<'_> {
    functions! { compose, WithHandles;
        compose(mode: String, uid: u64, locale: Option<String>) -> Outcome<compose::Draft>;
    }
}

impl credentials::Host for Taped<'_> {
    functions! { credentials, Plain;
        create_token(
            label: String,
            scopes: Vec<types::Scope>,
            days: Option<u32>,
            at_most: u32,
        ) -> Outcome<credentials::CreatedToken>;
        list_tokens() -> Outcome<Vec<credentials::Token>>;
        revoke_token(id: String) -> Outcome<()>;
        create_app_password(label: String) -> Outcome<credentials::CreatedAppPassword>;
        list_credentials() -> Outcome<Vec<credentials::Credential>>;
        revoke_app_password(id: String) -> Outcome<credentials::Revocation>;
        list_grants() -> Outcome<Vec<credentials::Grant>>;
        end_grant(id: String) -> Outcome<()>;
        suspend_grant(id: String) -> Outcome<()>;
        resume_grant(id: String) -> Outcome<()>;
    }
}

impl deliveries::Host for Taped<'_> {
    functions! { deliveries, Plain;
        get(message_id: String) -> Outcome<deliveries::Delivery>;
    }
}

impl domains::Host for Taped<'_> {
    functions! { domains, Plain;
        list() -> Outcome<domains::Held>;
        claim(name: String) -> Outcome<domains::Claimed>;
        inspect(name: String) -> Outcome<domains::Inspected>;
        verify(name: String) -> Outcome<domains::Verification>;
        release(name: String) -> Outcome<()>;
    }
}

impl drafts::Host for Taped<'_> {
    conversions! {
        convert_draft_error: drafts::DraftError;
    }
    functions! { drafts, Plain;
        delete(id: String, if_version: Option<String>) -> Outcome<(), drafts::DraftError>;
        send(
            id: String,
            if_version: Option<String>,
            options: outbox::SendOptions,
        ) -> Outcome<outbox::Sent, drafts::DraftError>;
        submit(submission: drafts::Submission) -> Outcome<outbox::Sent, drafts::DraftError>;
    }
    functions! { drafts, WithHandles;
        create(draft: outbox::Draft) -> Outcome<drafts::StoredDraft, drafts::DraftError>;
        get(id: String) -> Outcome<drafts::StoredDraft>;
        list(page: mailbox::Page) -> Outcome<drafts::DraftPage>;
        replace(
            id: String,
            draft: outbox::Draft,
            if_version: Option<String>,
        ) -> Outcome<drafts::StoredDraft, drafts::DraftError>;
    }
}

impl filters::Host for Taped<'_> {
    conversions! {
        convert_filter_error: filters::FilterError;
    }
    functions! { filters, Plain;
        get() -> Outcome<filters::FilterState, filters::FilterError>;
        set_vacation(
            vacation: filters::Vacation,
            if_version: Option<String>,
        ) -> Outcome<filters::FilterState, filters::FilterError>;
        set_rules(
            rules: Vec<filters::Rule>,
            if_version: Option<String>,
        ) -> Outcome<filters::FilterState, filters::FilterError>;
        list_forward_addresses() -> Outcome<Vec<filters::ForwardAddress>>;
        request_forward_address(address: String) -> Outcome<filters::ForwardAddress>;
        confirm_forward_address(id: String, code: String) -> Outcome<filters::ForwardAddress>;
        delete_forward_address(id: String) -> Outcome<()>;
    }
}

impl http_client::Host for Taped<'_> {
    functions! { http_client, Plain;
        send(request: http_client::Request) -> Outcome<http_client::Response>;
    }
}

impl mailbox::Host for Taped<'_> {
    conversions! {
        convert_search_error: mailbox::SearchError;
        convert_threads_error: mailbox::ThreadsError;
        convert_changes_error: mailbox::ChangesError;
        convert_stream_error: mailbox::StreamError;
        convert_conditional_error: mailbox::ConditionalError;
    }
    functions! { mailbox, Plain;
        list_folders() -> Outcome<Vec<mailbox::Folder>>;
        list_messages(query: mailbox::MessageQuery) -> Outcome<mailbox::Listing>;
        get_message(uid: u64) -> Outcome<mailbox::Detail>;
        search_messages(
            search: mailbox::Search,
        ) -> Outcome<mailbox::SearchResult, mailbox::SearchError>;
        list_threads(
            folder: Option<String>,
            page: mailbox::Page,
        ) -> Outcome<mailbox::ThreadList, mailbox::ThreadsError>;
        get_thread(
            id: String,
            page: mailbox::Page,
        ) -> Outcome<mailbox::ThreadMessages, mailbox::ThreadsError>;
        list_changes(
            since: Option<String>,
            folder: Option<String>,
            limit: u32,
        ) -> Outcome<mailbox::ChangeList, mailbox::ChangesError>;
        set_flags(
            uids: Vec<u64>,
            flags: Vec<String>,
            action: mailbox::FlagAction,
            if_version: Option<String>,
        ) -> Outcome<Vec<u64>, mailbox::ConditionalError>;
        move_messages(
            uids: Vec<u64>,
            destination: String,
            if_version: Option<String>,
        ) -> Outcome<Vec<u64>, mailbox::ConditionalError>;
        delete_messages(
            uids: Vec<u64>,
            if_version: Option<String>,
        ) -> Outcome<Vec<u64>, mailbox::ConditionalError>;
        get_version(uid: u64) -> Outcome<mailbox::MessageVersion>;
        trash_messages(
            uids: Vec<u64>,
            if_version: Option<String>,
        ) -> Outcome<Vec<u64>, mailbox::ConditionalError>;
        restore_messages(uids: Vec<u64>) -> Outcome<Vec<u64>>;
        copy_messages(uids: Vec<u64>, destination: String) -> Outcome<Vec<mailbox::CopiedMessage>>;
        create_folder(path: String) -> Outcome<mailbox::Folder>;
        rename_folder(old: String, path: String) -> Outcome<mailbox::Folder>;
        delete_folder(folder: String, messages: mailbox::MessageDisposal) -> Outcome<()>;
        get_quota() -> Outcome<mailbox::Quota>;
        get_header(uid: u64, names: Option<Vec<String>>) -> Outcome<mailbox::MessageHeader>;
        get_summaries(uids: Vec<u64>) -> Outcome<Vec<mailbox::Hit>>;
        import_message(
            folder: String,
            message: Resource<Blob>,
            flags: Vec<String>,
            received_at: Option<i64>,
            key: Option<String>,
        ) -> Outcome<mailbox::ImportedMessage>;
        snooze_message(uid: u64, until: types::Timestamp) -> Outcome<()>;
        unsnooze_message(uid: u64) -> Outcome<()>;
        get_snooze(uid: u64) -> Outcome<Option<types::Timestamp>>;
    }
    functions! { mailbox, WithHandles;
        get_message_with_blobs(uid: u64) -> Outcome<mailbox::DetailWithBlobs>;
        get_attachment(uid: u64, index: u32) -> Outcome<Option<mailbox::AttachmentContent>>;
        stream_events(
            since: Option<String>,
            filter: mailbox::EventFilter,
        ) -> Outcome<Resource<EventStream>, mailbox::StreamError>;
        wait_for_changes(
            since: String,
            folder: Option<String>,
            limit: u32,
            seconds: u32,
        ) -> Outcome<Resource<EventStream>, mailbox::StreamError>;
        get_raw_message(uid: u64) -> Outcome<mailbox::RawMessage>;
        get_messages_with_blobs(uids: Vec<u64>) -> Outcome<Vec<mailbox::DetailWithBlobs>>;
    }
}

impl modules::Host for Taped<'_> {
    functions! { modules, Plain;
        list() -> Outcome<Vec<modules::OwnerModule>>;
        set_enabled(name: String, enabled: bool) -> Outcome<modules::OwnerModule>;
    }
}

impl outbox::Host for Taped<'_> {
    conversions! {
        convert_send_error: outbox::SendError;
    }
    functions! { outbox, Plain;
        send(
            draft: outbox::Draft,
            options: outbox::SendOptions,
        ) -> Outcome<outbox::Sent, outbox::SendError>;
        list_entries(limit: u32) -> Outcome<Vec<outbox::Entry>>;
        get_entry(id: String) -> Outcome<outbox::Entry>;
        reschedule_entry(id: String, send_at: i64) -> Outcome<outbox::Entry>;
        cancel_entry(id: String) -> Outcome<()>;
        upload(
            filename: String,
            content_type: String,
            content: Resource<Blob>,
        ) -> Outcome<outbox::UploadedFile>;
    }
    functions! { outbox, WithHandles;
        get_upload(id: String) -> Outcome<outbox::UploadedContent>;
    }
}

impl profile::Host for Taped<'_> {
    functions! { profile, Plain;
        get() -> Outcome<profile::Details>;
        update(changes: profile::Changes) -> Outcome<()>;
        change_password(current: String, new: String) -> Outcome<profile::PasswordChange>;
    }
}

impl queries::Host for Taped<'_> {
    conversions! {
        convert_query_error: queries::QueryError;
    }
    functions! { queries, Plain;
        query_messages(
            query: queries::NumberQuery,
        ) -> Outcome<queries::NumberPage, queries::QueryError>;
        get_facts(
            uids: Vec<u64>,
        ) -> Outcome<Vec<queries::MessageFacts>, queries::QueryError>;
        get_threads(
            ids: Vec<String>,
        ) -> Outcome<Vec<queries::ThreadNumbers>, queries::QueryError>;
        count_messages() -> Outcome<Vec<queries::FolderCounts>, queries::QueryError>;
        list_changes(
            since: Option<String>,
            limit: u32,
        ) -> Outcome<mailbox::ChangeList, queries::QueryError>;
    }
    functions! { queries, WithHandles;
        stream_cursors(
            since: Option<String>,
            format: queries::CursorFormat,
        ) -> Outcome<Resource<EventStream>, queries::QueryError>;
    }
}

impl store::Host for Taped<'_> {
    functions! { store, Plain;
        get(key: String) -> Outcome<Option<Vec<u8>>>;
        set(key: String, value: Vec<u8>) -> Outcome<()>;
        delete(key: String) -> Outcome<()>;
        compare_and_set(
            key: String,
            expected: Option<Vec<u8>>,
            value: Option<Vec<u8>>,
        ) -> Outcome<bool>;
        list(prefix: String, after: Option<String>, limit: u32) -> Outcome<Vec<String>>;
    }
}

impl subscriptions::Host for Taped<'_> {
    conversions! {
        convert_subscribe_error: subscriptions::SubscribeError;
    }
    functions! { subscriptions, Plain;
        subscribe(
            new: subscriptions::NewSubscription,
        ) -> Outcome<subscriptions::Subscribed, subscriptions::SubscribeError>;
        unsubscribe(name: String, folder: Option<String>, url: String) -> Outcome<()>;
    }
}

impl teams::Host for Taped<'_> {
    conversions! {
        convert_refused: teams::Refused;
    }
    functions! { teams, Plain;
        list() -> Outcome<Vec<teams::Summary>>;
        members(team: String) -> Outcome<teams::Team>;
        invite(
            team: String,
            username: String,
            password: String,
            grant: teams::NewGrant,
        ) -> Outcome<teams::Invited, teams::Refused>;
        add_grant(
            team: String,
            member: String,
            grant: teams::NewGrant,
        ) -> Outcome<String, teams::Refused>;
        change_grant(
            team: String,
            grant: String,
            rights: Vec<teams::Right>,
        ) -> Outcome<(), teams::Refused>;
        revoke_grant(team: String, grant: String) -> Outcome<(), teams::Refused>;
        remove_member(team: String, member: String) -> Outcome<(), teams::Refused>;
    }
}

impl webhooks::Host for Taped<'_> {
    functions! { webhooks, Plain;
        create(settings: webhooks::Settings) -> Outcome<webhooks::Created>;
        list() -> Outcome<Vec<webhooks::Webhook>>;
        get(id: String) -> Outcome<webhooks::Webhook>;
        change(id: String, change: webhooks::WebhookChange) -> Outcome<webhooks::Webhook>;
        delete(id: String) -> Outcome<()>;
        rotate(id: String) -> Outcome<String>;
        test(id: String) -> Outcome<webhooks::Delivery>;
        deliveries(id: String, limit: u32) -> Outcome<Vec<webhooks::Delivery>>;
        replay(id: String, replayed: String) -> Outcome<webhooks::Delivery>;
    }
}
