//! The list of the codes of the host and of the bundled modules. Each line has the constant, the
//! code, the statuses and the error texts of a code.

use super::{Code, KnownCode, codes};

codes! {
    // Requests
    INVALID_JSON_BODY = "invalid_json_body", [400], ["Invalid JSON body"];
    FIELD_REQUIRED = "field_required", [400], ["{} is required"];
    INVALID_FIELD = "invalid_field", [400], ["{}"];
    PARAMETER_REPEATED = "parameter_repeated", [400], ["{} must not be repeated"];
    INVALID_PATH_ENCODING = "invalid_path_encoding", [400],
        ["The path is not valid percent-encoded UTF-8"];
    INVALID_QUERY_ENCODING = "invalid_query_encoding", [400],
        ["The query is not valid percent-encoded UTF-8"];
    INVALID_BASE64 = "invalid_base64", [400], [
        "{} must be a string of standard base64",
        "A file must be a string of base64",
        "component must be in base64",
    ];
    TOO_MANY_FILES = "too_many_files", [400], ["The body has more than {} files"];
    MALFORMED_REQUEST = "malformed_request", [400], [
        "The request is not valid HTTP",
        "The lines of a request's head must end in CR LF",
        "A request must {}",
        "The request's body could not be read",
    ];
    ROUTE_NOT_FOUND = "route_not_found", [404], ["There is no such route"];
    METHOD_NOT_ALLOWED = "method_not_allowed", [405], [
        "This route does not support this method",
        "The agent endpoint supports only POST",
    ];
    REQUEST_TIMEOUT = "request_timeout", [408], [
        "The request did not arrive in time",
        "The request's body did not arrive in time",
    ];
    BODY_TOO_LARGE = "body_too_large", [413], [
        "The request's body is larger than {} bytes",
        "The request's body without its files is larger than {} bytes",
    ];
    BODY_NOT_ALLOWED = "body_not_allowed", [413], ["This route accepts no request body"];
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", [415], ["The media type {}"];
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable", [416],
        ["The range is outside of the content"];
    WRONG_HOST = "wrong_host", [421], ["This server does not serve this host"];
    PRECONDITION_REQUIRED = "precondition_required", [428], ["The header If-Match is required"];
    RATE_LIMITED = "rate_limited", [429], ["Too many requests, please try again later"];
    HEADERS_TOO_LARGE = "headers_too_large", [431], ["The request's headers are too large"];
    UNSUPPORTED_TRANSFER_ENCODING = "unsupported_transfer_encoding", [501],
        ["The only supported Transfer-Encoding is chunked"];
    SERVICE_WORKERS_NOT_ALLOWED = "service_workers_not_allowed", [403],
        ["Service workers are not allowed"];
    FOREIGN_ORIGIN = "foreign_origin", [403], [
        "This form was sent from another site",
        "This page cannot be shown in a frame",
        "This origin may not call the agent endpoint",
    ];
    FORM_EXPIRED = "form_expired", [403], ["This form has expired or comes from another site. {}"];

    // The service
    INTERNAL_ERROR = "internal_error", [500], ["The operation could not be completed"];
    OUTCOME_UNKNOWN = "outcome_unknown", [500], [
        "The operation was begun and its outcome is not known; check before you repeat it",
        "The operation took too long and may still complete; check before trying again",
        "The message may have been sent; check the Sent folder before you send it again",
        "The message may have been stored; repeat the request with the same Idempotency-Key",
    ];
    SERVICE_BUSY = "service_busy", [503], ["The service is busy, please try again in a moment"];
    TOO_MANY_LARGE_BODIES = "too_many_large_bodies", [503],
        ["Too many requests with large bodies, please try again in a moment"];
    OPERATION_TIMEOUT = "operation_timeout", [503],
        ["The operation took too long, please try again in a moment"];
    CLIENT_DISCONNECTED = "client_disconnected", [503], ["The client disconnected"];
    DATABASE_UNAVAILABLE = "database_unavailable", [503],
        ["The service is temporarily unavailable, please try again in a moment"];
    MAIL_SERVER_INITIALIZING = "mail_server_initializing", [503],
        ["Mail server is initializing, please try again in a moment"];
    MAIL_SERVER_UNAVAILABLE = "mail_server_unavailable", [503],
        ["Mail server is unavailable, please try again in a moment"];
    MAIL_SERVER_REJECTED = "mail_server_rejected", [400], ["{}"];
    AUTHORIZATION_SERVER_UNAVAILABLE = "authorization_server_unavailable", [503],
        ["The authorization server cannot be reached, please try again in a moment"];
    IDENTITY_PROVIDER_UNAVAILABLE = "identity_provider_unavailable", [503],
        ["The identity provider cannot be reached, please try again in a moment"];

    // Credentials and permissions
    INVALID_AUTHORIZATION_HEADER = "invalid_authorization_header", [401],
        ["Missing or invalid Authorization header"];
    INVALID_ACCESS_TOKEN = "invalid_access_token", [401], ["Invalid or expired access token"];
    INVALID_API_TOKEN = "invalid_api_token", [401], ["Invalid API token"];
    INVALID_TICKET = "invalid_ticket", [401], ["This link is invalid, expired or was used"];
    INVALID_APP_PASSWORD = "invalid_app_password", [401], ["Invalid user name or app password"];
    CREDENTIAL_NOT_ACCEPTED = "credential_not_accepted", [403],
        ["This endpoint does not accept this kind of credential"];
    INVALID_OPERATOR_TOKEN = "invalid_operator_token", [401], ["Invalid operator token"];
    OPERATOR_TOKEN_EXPIRED = "operator_token_expired", [401], ["This operator token has expired"];
    API_TOKEN_REVOKED = "api_token_revoked", [401], ["This API token has been revoked"];
    API_TOKEN_EXPIRED = "api_token_expired", [401], ["This API token has expired"];
    API_TOKEN_UNUSABLE = "api_token_unusable", [401],
        ["This API token's mail credential is no longer usable, please create a new token"];
    MAIL_CREDENTIAL_REFUSED = "mail_credential_refused", [401],
        ["This credential is no longer valid for mail access"];
    MAIL_SESSION_EXPIRED = "mail_session_expired", [401],
        ["Mail session expired, please log in again"];
    TWO_FACTOR_CODE_REQUIRED = "two_factor_code_required", [401], ["Two-factor code required"];
    MISSING_SCOPE = "missing_scope", [403], ["This credential is missing the \"{}\" scope"];
    SESSION_REQUIRED = "session_required", [403], [
        "This endpoint is only available to a signed-in session, not to API or OAuth tokens",
    ];
    ADMINISTRATOR_REQUIRED = "administrator_required", [403], [
        "This endpoint is only available to administrators",
        "This account is not an administrator",
    ];
    TWO_FACTOR_REQUIRED = "two_factor_required", [403], [
        "This endpoint needs a session that began with two-factor sign-in. {}",
        "This page needs two-factor sign-in, and it is off for this account. {}",
    ];
    RECENT_SIGN_IN_REQUIRED = "recent_sign_in_required", [403], [
        "This action needs a sign-in within the last five minutes. {}",
        "This action needs a sign-in at the identity provider within the last five minutes. {}",
    ];
    NO_CALLER = "no_caller", [403], ["There is no caller"];
    PERMISSION_DENIED = "permission_denied", [403], ["{}"];
    MISSING_RIGHT = "missing_right", [403], [
        "Your rights in this mailbox do not include \"{}\" here",
        "Your rights in this mailbox do not include \"{}\"",
    ];
    MAILBOX_NOT_FOUND = "mailbox_not_found", [404], ["Mailbox not found"];
    NOT_FOUND = "not_found", [404], ["Not found"];
    INVALID_REQUEST = "invalid_request", [400], ["Invalid request"];

    // Sign-in and registration
    INVALID_LOGIN_FORMAT = "invalid_login_format", [400], ["Invalid email or password format"];
    INVALID_CREDENTIALS = "invalid_credentials", [401], ["Invalid credentials"];
    IDENTITY_PROVIDER_REQUIRED = "identity_provider_required", [403],
        ["This account signs in at the identity provider. Start at {}"];
    MISSING_REFRESH_TOKEN = "missing_refresh_token", [400], ["Missing refresh token"];
    INVALID_REFRESH_TOKEN = "invalid_refresh_token", [401], ["Invalid or expired refresh token"];
    REFRESH_TOKEN_REQUIRED = "refresh_token_required", [400], ["refreshToken is required"];
    INVALID_SIGN_IN_CODE = "invalid_sign_in_code", [400], [
        "The code is invalid, has expired or was already used",
        "code is malformed",
    ];
    INVALID_CODE_VERIFIER = "invalid_code_verifier", [400], ["codeVerifier is wrong"];
    DEVICE_CODE_EXPIRED = "device_code_expired", [404], ["The code is no longer valid"];
    INVALID_LOGOUT_TOKEN = "invalid_logout_token", [400], [
        "Invalid logout token: {}",
        "The logout token was used before",
    ];
    REGISTRATION_DISABLED = "registration_disabled", [403], ["Registration is currently disabled"];
    USERNAME_REQUIRED = "username_required", [400], ["username query param is required"];
    USERNAME_TOO_SHORT = "username_too_short", [400], ["Username must be at least 2 characters"];
    INVALID_USERNAME = "invalid_username", [400], ["Username {}"];
    INVALID_REGISTRATION_DOMAIN = "invalid_registration_domain", [400],
        ["domain must be one of the registration domains: {}"];
    INVALID_PASSWORD = "invalid_password", [400], [
        "password must {}",
        "new_password must {}",
        "password must not be empty",
    ];
    INVALID_NAME = "invalid_name", [400], [
        "first_name must {}",
        "last_name must {}",
        "firstName must {}",
        "lastName must {}",
    ];
    INVALID_DATE_OF_BIRTH = "invalid_date_of_birth", [400], [
        "dob must be a date in the form YYYY-MM-DD",
        "dob must not be in the future",
    ];
    TOO_YOUNG = "too_young", [400], ["dob must be at least 13 years ago"];
    EMAIL_TAKEN = "email_taken", [409], ["This email address is already taken"];
    DOMAINS_UNAVAILABLE = "domains_unavailable", [500], ["Unable to fetch domains"];

    // Folders and messages
    FOLDER_NOT_FOUND = "folder_not_found", [404], ["Folder not found"];
    FOLDER_EXISTS = "folder_exists", [409], ["Folder already exists"];
    INVALID_FOLDER_PATH = "invalid_folder_path", [400], ["Invalid folder path"];
    FOLDER_HAS_ROLE = "folder_has_role", [409],
        ["This folder has a role and cannot be changed"];
    FOLDER_NOT_EMPTY = "folder_not_empty", [409], ["Folder is not empty"];
    INVALID_MESSAGES_PARAMETER = "invalid_messages_parameter", [400],
        ["Invalid messages parameter"];
    FOLDER_HAS_SUBFOLDERS = "folder_has_subfolders", [409], ["Folder has subfolders"];
    TOO_MANY_FOLDERS = "too_many_folders", [413], ["{}"];
    INVALID_PAGING_PARAMETERS = "invalid_paging_parameters", [400], [
        "Invalid paging parameters",
        "{}limit must be {}",
    ];
    INVALID_CURSOR = "invalid_cursor", [400], ["Invalid cursor"];
    CURSOR_EXPIRED = "cursor_expired", [400, 410], ["Cursor expired", "cursor expired"];
    INVALID_CHANGES_PARAMETERS = "invalid_changes_parameters", [400],
        ["Invalid changes parameters"];
    INVALID_EVENT_TYPE = "invalid_event_type", [400], ["unknown event type: {}"];
    TOO_MANY_STREAMS = "too_many_streams", [429],
        ["Too many open streams, please close some or try again later"];
    INVALID_MESSAGE_UID = "invalid_message_uid", [400], ["Invalid message UID"];
    MESSAGE_NOT_FOUND = "message_not_found", [404], ["Message not found"];
    MESSAGE_CHANGED = "message_changed", [412], ["The message has changed"];
    INVALID_MESSAGE = "invalid_message", [400], ["Invalid message", "Invalid message: {}"];
    MESSAGE_TOO_LARGE = "message_too_large", [413], [
        "Message exceeds the 25 MB limit",
        "Message exceeds the 50 MB limit",
        "the message exceeds the 25 MB limit",
        "the message exceeds the 50 MiB limit",
        "The message is too large{}",
        "{}",
    ];
    MAILBOX_FULL = "mailbox_full", [507], ["The mailbox is full"];
    NO_TRASH_FOLDER = "no_trash_folder", [409], ["There is no Trash folder"];
    MESSAGE_NOT_IN_TRASH = "message_not_in_trash", [409], ["The message is not in Trash"];
    INVALID_ATTACHMENT_INDEX = "invalid_attachment_index", [400], ["Invalid attachment index"];
    ATTACHMENT_NOT_FOUND = "attachment_not_found", [404], ["Attachment not found"];
    INVALID_FLAG_DATA = "invalid_flag_data", [400], [
        "Invalid flag data",
        "The flags are empty or contain a flag that clients cannot set",
        "The flags contain a flag that clients cannot set",
        "At most {} flags at once",
    ];
    INVALID_MOVE_DATA = "invalid_move_data", [400], ["Invalid move data"];
    INVALID_COPY_DATA = "invalid_copy_data", [400], ["Invalid copy data"];
    INVALID_SNOOZE_DATA = "invalid_snooze_data", [400],
        ["Invalid snooze data", "until must be in the future and at most a year ahead"];
    MESSAGE_NOT_SNOOZED = "message_not_snoozed", [409], ["The message is not snoozed"];
    TOO_MANY_SNOOZED = "too_many_snoozed", [413], ["At most {} messages can be snoozed"];
    INVALID_RECEIVED_AT = "invalid_received_at", [400],
        ["Invalid receivedAt", "received-at must {}"];
    INVALID_VIEW = "invalid_view", [400], ["Invalid view"];
    INVALID_HEADERS_PARAMETER = "invalid_headers_parameter", [400], [
        "Invalid headers parameter",
        "At most {} names of header fields at once",
        "{} is not the name of a header field",
    ];
    UIDS_REQUIRED = "uids_required", [400], ["At least one uid is required"];
    TOO_MANY_MESSAGES = "too_many_messages", [400, 413], [
        "At most {} messages at once",
        "Too many messages (max 200 per request)",
        "Too many messages (max {} per request)",
    ];
    MISSING_SEARCH_TERM = "missing_search_term", [400], ["Missing search term"];
    INVALID_SEARCH_TERM = "invalid_search_term", [400],
        ["Invalid search term", "The search query must be {}"];
    INVALID_SEARCH_PARAMETERS = "invalid_search_parameters", [400], ["Invalid search parameters"];
    INVALID_SEARCH_QUERY = "invalid_search_query", [400], ["{}"];
    SEARCH_FAILED = "search_failed", [500], ["Search failed"];
    THREAD_NOT_FOUND = "thread_not_found", [404], ["Thread not found"];
    SEARCH_INDEX_NOT_READY = "search_index_not_ready", [503],
        ["Threads need the search index, which is disabled or being built"];

    // Sending
    SENDER_NOT_ALLOWED = "sender_not_allowed", [403],
        ["You can only send from your own address or active aliases"];
    SENDER_DOMAIN_NOT_ALLOWED = "sender_domain_not_allowed", [403],
        ["You do not have permission to send from this domain"];
    INVALID_SENDER = "invalid_sender", [400], [
        "from must be one mail address without a name",
        "fromName must be at most 255 characters without control characters",
    ];
    INVALID_RECIPIENT = "invalid_recipient", [400], [
        "{} must contain only mail addresses",
        "to must name at least one recipient",
        "replyTo must be at most 50 addresses",
    ];
    TOO_MANY_RECIPIENTS = "too_many_recipients", [400],
        ["Too many recipients (max 50 across to, cc and bcc)"];
    INVALID_SUBJECT = "invalid_subject", [400], ["subject must {}"];
    INVALID_MESSAGE_ID = "invalid_message_id", [400], [
        "{} must be Message-IDs in angle brackets, separated by spaces",
        "{} must be one Message-ID in angle brackets",
        "{} is too long",
    ];
    INVALID_MESSAGE_HEADER = "invalid_message_header", [400], ["headers{}"];
    INVALID_ATTACHMENT = "invalid_attachment", [400], ["attachments[{}"];
    TOO_MANY_ATTACHMENTS = "too_many_attachments", [400], ["attachments must be at most 20 files"];
    INVALID_DRAFT = "invalid_draft", [400], ["Invalid {}"];
    INVALID_IDEMPOTENCY_KEY = "invalid_idempotency_key", [400],
        ["{} must be 1 to 255 visible ASCII characters"];
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", [409],
        [
            "This Idempotency-Key was used for another message",
            "This Idempotency-Key was used for another request",
        ];
    IDEMPOTENCY_KEY_IN_PROGRESS = "idempotency_key_in_progress", [409],
        ["A request with this Idempotency-Key is still being processed"];
    SEND_FAILED = "send_failed", [500], ["The message could not be sent"];
    UPLOAD_NOT_FOUND = "upload_not_found", [404], ["Upload not found"];
    UPLOAD_TOO_LARGE = "upload_too_large", [413], ["An upload must be at most 25 MB"];
    UPLOADS_FULL = "uploads_full", [413], ["The uploads of the account exceed 100 MB"];
    OUTBOX_FULL = "outbox_full", [413], ["The outbox of the account is full"];
    INVALID_SEND_TIME = "invalid_send_time", [400], [
        "sendAt must be a time in the format of RFC 3339",
        "sendAt must be at most a year ahead",
        "undoSeconds must be 0 to 120",
    ];
    ALREADY_SENT = "already_sent", [409], ["Already sent"];
    OUTBOX_ENTRY_NOT_FOUND = "outbox_entry_not_found", [404], ["Outbox entry not found"];
    NOT_SCHEDULED = "not_scheduled", [409], ["The message is not scheduled any longer"];
    INVALID_FILENAME = "invalid_filename", [400], ["filename {}"];
    DRAFT_NOT_FOUND = "draft_not_found", [404], ["Draft not found"];
    DRAFT_BEING_SENT = "draft_being_sent", [409], ["The draft is already being sent"];

    // Aliases
    ALIAS_TAKEN = "alias_taken", [400, 409], ["{} is already taken"];
    INVALID_ALIAS_NAME = "invalid_alias_name", [400], ["name {}", "This name is reserved"];
    ALIAS_DOMAIN_NOT_ALLOWED = "alias_domain_not_allowed", [400], [
        "You do not have permission to use this domain",
        "The account cannot have aliases on this domain",
    ];
    ALIASES_MANAGED = "aliases_managed", [403],
        ["Aliases on this domain are managed by the mail server's administrator"];
    TOO_MANY_ALIASES = "too_many_aliases", [409], ["{}"];
    DOMAIN_REQUIRED = "domain_required", [400], ["domain is required"];
    NAME_AND_DOMAIN_REQUIRED = "name_and_domain_required", [400],
        ["name and domain query params required"];
    ACTIVE_REQUIRED = "active_required", [400], ["active (boolean) is required"];
    INVALID_ALIAS_ID = "invalid_alias_id", [400], ["Invalid alias ID"];
    ALIAS_NOT_FOUND = "alias_not_found", [404], [
        "Alias not found or not owned by you",
        "There is no such alias",
    ];
    INVALID_ALIAS_NOTE = "invalid_alias_note", [400], ["note must {}"];
    INVALID_EXPIRY = "invalid_expiry", [400], [
        "expiresInDays must be an integer from 1 to 365",
        "expiresAt must {}",
        "days must be from 1 to 365",
    ];

    // Vacation and rules
    FILTERS_UNSUPPORTED = "filters_unsupported", [501],
        ["This mail server does not support vacation responses and rules"];
    INVALID_VACATION = "invalid_vacation", [400], ["{}"];
    INVALID_RULES = "invalid_rules", [400], ["{}"];
    FORWARD_ADDRESS_NOT_ALLOWED = "forward_address_not_allowed", [400],
        ["Mail can only be forwarded to an address of this service or to a confirmed address, and {} is neither"];
    FORWARD_ADDRESS_NOT_FOUND = "forward_address_not_found", [404], ["Forward address not found"];
    INVALID_FORWARD_ADDRESS = "invalid_forward_address", [400], ["address must be a mail address"];
    FORWARD_ADDRESS_CONFIRMED = "forward_address_confirmed", [409],
        ["The forward address is already confirmed"];
    TOO_MANY_FORWARD_ADDRESSES = "too_many_forward_addresses", [409], [
        "The account has 10 forward addresses; delete one first",
        "The account has requested 10 forward addresses within 24 hours",
    ];
    WRONG_FORWARD_CODE = "wrong_forward_code", [400], ["The code is wrong"];
    VACATION_EXISTS = "vacation_exists", [409],
        ["The script \"{}\" of another mail client has a vacation response; disable it there first"];
    OWNER_ONLY = "owner_only", [403],
        [
            "Only the owner of a mailbox can change its vacation response and its rules",
            "Only the owner of a mailbox can use its forward addresses",
        ];
    FILTERS_CHANGED = "filters_changed", [412], ["The vacation response or the rules have changed"];
    FILTERS_TOO_LARGE = "filters_too_large", [413], ["The vacation response and the rules are too large"];

    // Profile, tokens and app passwords
    PROFILE_NOT_FOUND = "profile_not_found", [404], ["Profile not found"];
    NOTHING_TO_UPDATE = "nothing_to_update", [400], ["Nothing to update"];
    PROFILE_INCOMPLETE = "profile_incomplete", [400],
        ["Profile does not exist. Provide first_name, last_name, and dob to create."];
    CURRENT_PASSWORD_REQUIRED = "current_password_required", [400],
        ["current_password is required"];
    SAME_PASSWORD = "same_password", [400],
        ["New password must be different from current password"];
    WRONG_PASSWORD = "wrong_password", [401, 403], [
        "Current password is incorrect",
        "Wrong password",
    ];
    PASSWORD_MANAGED_ELSEWHERE = "password_managed_elsewhere", [403], [
        "The mail server manages this password. Change it {}",
        "The identity provider manages the sign-in of this account. {}",
    ];
    ACCOUNT_MANAGED_ELSEWHERE = "account_managed_elsewhere", [403], [
        "The mail server's administrator manages this account",
        "The mail server's administrator manages the addresses of this domain",
    ];
    FORWARDING_LOOP = "forwarding_loop", [400],
        ["Mail would be forwarded back to an account that has received it"];
    PASSWORD_UPDATE_FAILED = "password_update_failed", [500], ["Failed to update password"];
    SCOPE_REQUIRED = "scope_required", [400], ["At least one scope is required", "scopes must not be empty"];
    UNKNOWN_SCOPE = "unknown_scope", [400], ["Unknown scope \"{}\". Available scopes: {}"];
    TOO_MANY_TOKENS = "too_many_tokens", [409], [
        "You already have 20 API tokens; revoke one before creating another",
        "The account has reached its limit of API tokens",
    ];
    TOKEN_NOT_FOUND = "token_not_found", [404], ["Token not found"];
    TOKEN_REVOKE_FAILED = "token_revoke_failed", [500], ["Failed to revoke token"];
    LABEL_REQUIRED = "label_required", [400], ["label is required"];
    INVALID_LABEL = "invalid_label", [400], ["label must {}"];
    TOO_MANY_APP_PASSWORDS = "too_many_app_passwords", [409], ["{}"];
    APP_PASSWORD_CREATE_FAILED = "app_password_create_failed", [500],
        ["Failed to create app password"];
    APP_PASSWORD_NOT_FOUND = "app_password_not_found", [404], ["App password not found"];
    APP_PASSWORD_BACKS_TOKEN = "app_password_backs_token", [409],
        ["This credential backs the API token \"{}\"; revoke it with DELETE /api/v1/tokens/{}"];
    APP_PASSWORD_REVOKE_FAILED = "app_password_revoke_failed", [500],
        ["Failed to revoke app password"];
    SESSIONS_UNAVAILABLE = "sessions_unavailable", [500], ["Unable to fetch sessions"];
    SESSION_NOT_FOUND = "session_not_found", [404], ["Session not found"];
    SESSION_REVOKE_FAILED = "session_revoke_failed", [500], ["Failed to revoke session"];
    GRANT_NOT_FOUND = "grant_not_found", [404], ["There is no such grant", "Grant not found"];
    GRANT_SUSPENDED = "grant_suspended", [401, 403], ["This grant is suspended"];
    INVALID_POLICY = "invalid_policy", [400], ["policy{}"];
    POLICY_DENIED = "policy_denied", [403], ["The policy of this grant does not allow {}"];
    HOLD_NOT_FOUND = "hold_not_found", [404], ["Hold not found"];
    HOLD_CHANGED = "hold_changed", [409], ["The hold has changed"];
    JOURNAL_FULL = "journal_full", [403, 413], ["The journal of this grant is full"];

    // Domains
    INVALID_DOMAIN = "invalid_domain", [400], [
        "Enter a valid domain you own (e.g. example.com)",
        "The name is not a domain that an account can claim",
    ];
    CUSTOM_DOMAINS_NOT_INCLUDED = "custom_domains_not_included", [403],
        ["Custom domains aren't included in your plan"];
    TOO_MANY_DOMAINS = "too_many_domains", [403], ["Your plan's custom domains are all in use"];
    DOMAIN_TAKEN = "domain_taken", [409], [
        "This domain has already been claimed by another user",
        "The domain is claimed by another account",
    ];
    VERIFICATION_RECORD_NOT_FOUND = "verification_record_not_found", [400],
        ["Verification TXT not found yet — DNS can take a while to propagate"];
    DOMAIN_NOT_FOUND = "domain_not_found", [404], ["Domain not found"];
    DNS_UNAVAILABLE = "dns_unavailable", [503], ["Couldn't read DNS right now, try again shortly"];
    DOMAIN_HAS_ALIASES = "domain_has_aliases", [409], [
        "Remove all aliases on this domain first",
        "There are aliases on the domain",
    ];
    DOMAIN_DELETE_FAILED = "domain_delete_failed", [500], ["Failed to delete domain"];

    // Shared mailboxes
    TEAM_NOT_FOUND = "team_not_found", [404], ["Team not found"];
    USER_NOT_FOUND = "user_not_found", [404], ["There is no such user"];
    MEMBER_NOT_FOUND = "member_not_found", [404], ["There is no such member"];
    NOT_A_MANAGER = "not_a_manager", [403], ["You may not manage the members of this mailbox"];
    RIGHT_NOT_HELD = "right_not_held", [403], ["You can only grant rights that you hold"];
    OWNER_NOT_CHANGEABLE = "owner_not_changeable", [403],
        ["The mailbox's owner can be neither removed nor granted anything"];
    INVALID_MEMBER = "invalid_member", [400], [
        "username must not be your own",
        "username must {}",
    ];
    INVALID_RESOURCE = "invalid_resource", [400], ["resource_id must {}"];
    INVALID_RIGHTS = "invalid_rights", [400], ["rights {}"];
    TOO_MANY_GRANTS = "too_many_grants", [400],
        ["A member may have {} grants; revoke one before making another"];
    ALREADY_A_MEMBER = "already_a_member", [409], ["The account is already a member"];
    TOO_MANY_MEMBERS = "too_many_members", [409], ["The plan's limit of guests is reached"];

    // Exports
    EXPORT_NOT_FOUND = "export_not_found", [404], ["Export not found"];
    EXPORT_IN_PROGRESS = "export_in_progress", [409], ["An export is already in progress"];
    EXPORT_NOT_READY = "export_not_ready", [409], ["The archive is not ready", "The export failed"];

    // Webhooks
    WEBHOOK_NOT_FOUND = "webhook_not_found", [404], ["Webhook not found"];
    WEBHOOK_DELIVERY_NOT_FOUND = "webhook_delivery_not_found", [404], ["Delivery not found"];
    INVALID_WEBHOOK = "invalid_webhook", [400], [
        "payload must be ids or summary",
        "types must contain types of events, each once",
        "types[{}] is repeated",
        "types[{}] is not a type of an event",
        "secret must be whsec_ and 24 to 64 bytes in standard base64",
    ];
    INVALID_WEBHOOK_URL = "invalid_webhook_url", [400], [
        "url must be an absolute URL in ASCII of at most 2048 characters, without user information and fragment",
        "url must start with https://",
        "url must not have a private address",
    ];
    TOO_MANY_WEBHOOKS = "too_many_webhooks", [409], ["An account can have at most {} webhooks"];
    WEBHOOK_CONFLICT = "webhook_conflict", [409], [
        "The webhook is disabled",
        "The delivery is pending",
        "The webhook is being changed by another request",
    ];
    WEBHOOKS_NOT_ALLOWED = "webhooks_not_allowed", [403],
        ["A token of another authorization server cannot have webhooks"];

    // Modules and the operator's page
    MODULE_INVALID = "module_invalid", [400], ["{}"];
    MODULE_NOT_FOUND = "module_not_found", [404], ["{}"];
    MODULE_CONFLICT = "module_conflict", [409], ["{}"];
    MODULE_CONSENT_REQUIRED = "module_consent_required", [409], ["{}"];
    MODULE_VERSION_NOT_FOUND = "module_version_not_found", [404], ["There is no such version"];
    ACCOUNT_NOT_FOUND = "account_not_found", [404], ["There is no such account"];
    ACCOUNT_CONFLICT = "account_conflict", [409], ["{}"];
    PLATFORM_DOMAIN_CONFLICT = "platform_domain_conflict", [409], ["{}"];
    PLATFORM_DOMAIN_REQUIRED = "platform_domain_required", [400],
        ["{} is not a platform domain; the platform domains are {}"];
    INVALID_FILTER = "invalid_filter", [400], [
        "The supported filters compare userName, externalId, id and active with eq, joined by and",
    ];
    FILTER_NOT_ALLOWED = "filter_not_allowed", [403], ["This list cannot be filtered"];
    INVALID_PATCH_PATH = "invalid_patch_path", [400], ["path is not a valid path"];
    PATCH_TARGET_MISSING = "patch_target_missing", [400], ["remove needs a path"];
    READ_ONLY_ATTRIBUTE = "read_only_attribute", [400], ["{} is read-only"];
    RESOURCE_CHANGED = "resource_changed", [412], [
        "The account has changed",
        "The alias has changed",
        "The domain has changed",
        "The module has changed",
    ];

    // Capabilities of modules
    STORE_KEY_INVALID = "store_key_invalid", [400], ["{}"];
    STORE_VALUE_TOO_LARGE = "store_value_too_large", [413], ["{}"];
    STORE_FULL = "store_full", [413], ["{}"];
    STORE_CONFLICT = "store_conflict", [409], ["{}"];
    REMOTE_HOST_NOT_ALLOWED = "remote_host_not_allowed", [403], ["{}"];
    REMOTE_REQUEST_INVALID = "remote_request_invalid", [400], ["{}"];
    REMOTE_REQUEST_TOO_LARGE = "remote_request_too_large", [413], ["{}"];
    BLOB_INVALID = "blob_invalid", [400], ["{}"];
    READ_TOO_LARGE = "read_too_large", [413], ["{}"];
}
