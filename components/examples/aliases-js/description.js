// The module's part of the API description (OpenAPI 3.1). The host adds the credentials and scopes
// of each route, and the failures that all routes share.

const id = { type: 'integer', format: 'int64', minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
const date = { type: 'string', example: '2026-11-20 08:00:00' };

const added = { 'x-latchmail': true };

// The fields of an alias that all responses have.
const details = {
  note: { type: ['string', 'null'], maxLength: 200, description: "The owner's note, or `null`.", ...added },
  expiresAt: {
    type: ['string', 'null'],
    format: 'date-time',
    description:
      'The time from which the alias receives no mail and cannot be used as a sender. It can be in the past. `null` if the alias does not expire.',
    ...added,
  },
  lastReceivedAt: {
    type: ['string', 'null'],
    format: 'date-time',
    description: 'The time at which the alias last received mail. `null` if the mail server recorded no mail.',
    ...added,
  },
  received: {
    type: 'integer',
    format: 'int64',
    minimum: 0,
    description: 'The number of messages that the mail server recorded for the alias.',
    ...added,
  },
};
const detailNames = Object.keys(details);

const schema = (name) => ({ $ref: `#/components/schemas/${name}` });
const content = (name) => ({ 'application/json': { schema: schema(name) } });
const answer = (description, name, links) => ({ description, content: content(name), links });
const link = (operationId, name, value) => ({ [operationId]: { operationId, parameters: { [name]: `$response.body#/${value}` } } });
const changes = (id) => ({ ...link('updateAlias', 'id', id), ...link('deleteAlias', 'id', id) });
const body = (name) => ({ required: true, content: content(name) });
const parameter = (where, name, description, type) => ({ name, in: where, required: true, description, schema: type });

const query = [
  parameter('query', 'name', 'Part before the `@`', { type: 'string', minLength: 1 }),
  parameter('query', 'domain', 'Part after the `@`', { type: 'string', minLength: 1 }),
];
const byId = [parameter('path', 'id', "The alias's id", id)];

export const description = {
  paths: {
    '/api/v1/aliases': {
      get: {
        operationId: 'listAliases',
        tags: ['Aliases'],
        summary: 'List aliases',
        responses: { 200: answer('The aliases', 'AliasList', changes('aliases/0/id')) },
      },
      post: {
        operationId: 'createAlias',
        tags: ['Aliases'],
        summary: 'Create an alias',
        description:
          'The alias can immediately receive mail and be used as a sender. A random name can be pronounced and cannot be guessed. An address that ' +
          'another account owned before counts as taken. Only its former owner can create an alias with the address again.',
        requestBody: body('AliasRequest'),
        responses: {
          201: answer('The alias', 'CreatedAlias', changes('id')),
          400: answer(
            "The domain is missing, the address is already taken, the name is invalid, or the account cannot create aliases on the domain",
            'Error',
          ),
          409: answer('The account has reached the limit of aliases', 'Error'),
        },
      },
    },
    '/api/v1/aliases/domains': {
      get: {
        operationId: 'listAliasDomains',
        tags: ['Aliases'],
        summary: 'List the domains for aliases',
        responses: { 200: answer('The domains', 'AliasDomainList', link('checkAlias', 'domain', 'domains/0/domain')) },
      },
    },
    '/api/v1/aliases/check': {
      get: {
        operationId: 'checkAlias',
        tags: ['Aliases'],
        summary: 'Check whether an alias is available',
        description: 'The check does not reserve the address: another account can take the address before the alias is created.',
        parameters: query,
        responses: {
          200: answer('Whether the alias can be created, and why not', 'AliasCheck'),
          400: answer('`name and domain query params required`', 'Error'),
        },
      },
    },
    '/api/v1/aliases/{id}': {
      patch: {
        operationId: 'updateAlias',
        tags: ['Aliases'],
        summary: 'Change an alias',
        description:
          'An inactive or expired alias receives no mail and cannot be used as a sender. The alias still belongs to the account: it can be ' +
          'enabled again, and its expiry can be changed.',
        parameters: byId,
        requestBody: body('AliasChange'),
        responses: {
          200: answer('The alias was changed', 'ChangedAlias'),
          400: answer('`Invalid alias ID`, `active (boolean) is required`, or a text that names `note` or `expiresAt`', 'Error'),
          404: answer('`Alias not found or not owned by you`', 'Error'),
        },
      },
      delete: {
        operationId: 'deleteAlias',
        tags: ['Aliases'],
        summary: 'Delete an alias',
        description:
          'A deleted alias receives no mail and cannot be used as a sender. Mail that was already delivered stays in the mailbox. No other ' +
          'account can use the address.',
        parameters: byId,
        responses: {
          200: answer('The alias was deleted', 'Success'),
          400: answer('`Invalid alias ID`', 'Error'),
          404: answer('`Alias not found or not owned by you`', 'Error'),
        },
      },
    },
  },
  components: {
    schemas: {
      Alias: {
        description: 'An additional address of the mailbox.',
        type: 'object',
        required: ['id', 'address', 'active', ...detailNames],
        properties: {
          id: { ...id, description: 'The id, which is derived from the address and stays the same as long as the alias exists.' },
          address: { type: 'string', format: 'email', description: 'The address, in lower case.' },
          active: { type: 'boolean', description: 'Whether the alias receives mail and can be used as a sender.' },
          created: {
            ...date,
            description: 'The time of creation, `YYYY-MM-DD HH:MM:SS` in UTC. Absent if the service did not record it.',
          },
          modified: { ...date, description: 'The time of the last change, `YYYY-MM-DD HH:MM:SS` in UTC. Absent if the service did not record it.' },
          ...details,
        },
      },
      AliasList: {
        description: 'The aliases of an account.',
        type: 'object',
        required: ['aliases'],
        properties: {
          aliases: { type: 'array', items: schema('Alias'), description: 'The aliases sorted by address, including inactive ones.' },
        },
      },
      AliasRequest: {
        description: 'An alias to create.',
        type: 'object',
        required: ['domain'],
        properties: {
          domain: { type: 'string', minLength: 1, description: 'One of the domains on which aliases are allowed.' },
          name: {
            type: ['string', 'null'],
            minLength: 2,
            maxLength: 64,
            pattern: '^[a-z0-9](?:[a-z0-9_-]|\\.(?!\\.))*[a-z0-9]$',
            description:
              'Part before the `@`: lower-case letters, digits, dots, hyphens and underscores. The name starts and ends with a letter or a digit, and ' +
              'it does not contain two dots in a row. If the name is absent, the alias gets a random name.',
          },
        },
      },
      CreatedAlias: {
        description: 'A created alias.',
        type: 'object',
        required: ['alias', 'id', ...detailNames],
        properties: {
          alias: { type: 'string', format: 'email', description: 'The address of the alias.' },
          id: { ...id, description: 'The id of the alias.' },
          ...details,
        },
      },
      AliasDomain: {
        description: 'A domain on which aliases are allowed.',
        type: 'object',
        required: ['domain'],
        properties: { domain: { type: 'string', description: 'Name in lower case and ASCII.' } },
      },
      AliasDomainList: {
        description: 'The domains on which aliases are allowed.',
        type: 'object',
        required: ['domains'],
        properties: {
          domains: {
            type: 'array',
            items: schema('AliasDomain'),
            description: "The platform domains, then the account's own active domains.",
          },
        },
      },
      AliasCheck: {
        description: 'Whether an alias can be created now.',
        type: 'object',
        required: ['available'],
        properties: {
          available: { type: 'boolean', description: 'Whether the alias can be created.' },
          error: { type: 'string', description: 'The reason why the alias cannot be created. Absent if the alias can be created.' },
        },
      },
      AliasChange: {
        description: 'The changes of an alias. At least one field is required. A field that is absent stays as it is.',
        type: 'object',
        minProperties: 1,
        properties: {
          active: { type: 'boolean', description: 'Whether the alias receives mail and can be used as a sender.' },
          note: {
            type: ['string', 'null'],
            maxLength: 200,
            description: 'A note for the owner, without control characters. `null` or an empty text removes the note.',
            ...added,
          },
          expiresAt: {
            type: ['string', 'null'],
            format: 'date-time',
            description:
              'The time from which the alias receives no mail and cannot be used as a sender (RFC 3339). `null` if the alias does not expire. A ' +
              'time in the past is allowed.',
            ...added,
          },
        },
      },
      ChangedAlias: {
        description: 'A changed alias.',
        type: 'object',
        required: ['success', ...detailNames],
        properties: { success: { type: 'boolean', description: 'Always `true`.' }, ...details },
      },
      Success: {
        description: 'A response that only reports success.',
        type: 'object',
        required: ['success'],
        properties: { success: { type: 'boolean', description: 'Always true.' } },
      },
    },
  },
};
