/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input of every sort: each error at the place of the value that is wrong, and all of them in one run. */
#include "support.h"

#include <errno.h>

#define HEAD(kind, name) "apiVersion: berth/v1\nkind: " kind "\nmetadata: {name: " name "}\nspec:\n"
#define SECRET "arn:aws:secretsmanager:eu-west-1:123456789012:secret:team/db-AbCdEf"
#define PARAMETER "arn:aws:ssm:eu-west-1:123456789012:parameter/team/db/url"
#define ID "12345678-1234-1234-1234-123456789012"
#define IMAGE HEAD("Image", "i") "  repository: a/b\n  tag: c\n"
#define ENVIRONMENT HEAD("Environment", "x") "  image: {prebuilt: python}\n"
#define NO_MANIFEST "this file holds no manifest [what a stack has is deleted by berth destroy]\n"
#define NAME_40 "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
        const char *yaml, *said;
} cases[] = {
        /* Types and ranges. */
        { ENVIRONMENT "  memoryMB: 1768\n", "m.yaml:6:13: memoryMB must be 1769 to 10240, found 1768\n" },
        { ENVIRONMENT "  memoryMB: 1769\n", "" },
        { ENVIRONMENT "  memoryMB: 10240\n", "" },
        { ENVIRONMENT "  memoryMB: 10241\n", "m.yaml:6:13: memoryMB must be 1769 to 10240, found 10241\n" },
        { ENVIRONMENT "  memoryMB: 0x800\n  workspaceStorageMB: 0o4000\n", "" },
        { ENVIRONMENT "  memoryMB: +2048\n", "" },
        { ENVIRONMENT "  memoryMB: !!int 2048\n", "" },
        { ENVIRONMENT "  memoryMB: ~\n", "" },
        { ENVIRONMENT "  memoryMB:\n", "" },
        { ENVIRONMENT "  memoryMB: -2048\n", "m.yaml:6:13: memoryMB must be 1769 to 10240, found -2048\n" },
        { ENVIRONMENT "  memoryMB: 2048.5\n",
          "m.yaml:6:13: memoryMB must be an integer, found 2048.5 [whole numbers only]\n" },
        { ENVIRONMENT "  memoryMB: 2e3\n",
          "m.yaml:6:13: memoryMB must be an integer, found 2e3 [whole numbers only]\n" },
        { ENVIRONMENT "  memoryMB: \"2048\"\n",
          "m.yaml:6:13: memoryMB must be an integer, found the text \"2048\" [write 2048 without quotes]\n" },
        { ENVIRONMENT "  memoryMB: !!str 2048\n",
          "m.yaml:6:13: memoryMB must be an integer, found the text \"2048\" [write 2048 without quotes]\n" },
        { ENVIRONMENT "  memoryMB: no\n",
          "m.yaml:6:13: memoryMB must be an integer, found the text \"no\" [in MB, as a plain number]\n" },
        { ENVIRONMENT "  memoryMB: 2GB\n",
          "m.yaml:6:13: memoryMB must be an integer, found the text \"2GB\" [in MB, as a plain number]\n" },
        { ENVIRONMENT "  memoryMB: true\n",
          "m.yaml:6:13: memoryMB must be an integer, found true [in MB, as a plain number]\n" },
        { ENVIRONMENT "  memoryMB: 99999999999999999999\n",
          "m.yaml:6:13: memoryMB must be 1769 to 10240, found 99999999999999999999\n" },
        { ENVIRONMENT "  memoryMB: [2048]\n", "m.yaml:6:13: memoryMB must be an integer, found a list\n" },
        { ENVIRONMENT "  memoryMB: {a: 1}\n", "m.yaml:6:13: memoryMB must be an integer, found a map\n" },
        { ENVIRONMENT "  timeoutSeconds: 899\n", "m.yaml:6:19: timeoutSeconds must be 900, found 899\n" },
        { ENVIRONMENT "  logRetentionDays: 2\n",
          "m.yaml:6:21: logRetentionDays must be 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, "
          "1827, 2192, 2557, 2922, 3288 or 3653, found 2\n" },
        { ENVIRONMENT "  protect: no\n",
          "m.yaml:6:12: protect must be a boolean (true or false), found the text \"no\" [YAML 1.2 knows true and "
          "false; yes, no, on and off are texts]\n" },
        { ENVIRONMENT "  protect: 'true'\n",
          "m.yaml:6:12: protect must be a boolean (true or false), found the text \"true\" [write true without "
          "quotes]\n" },
        { ENVIRONMENT "  protect: TRUE\n", "" },
        { ENVIRONMENT "  description: no\n", "" },
        { ENVIRONMENT "  description: 1.10\n", "" },
        { ENVIRONMENT "  description: [a]\n", "m.yaml:6:16: description must be a text, found a list\n" },
        { ENVIRONMENT "  variables: x\n", "m.yaml:6:14: variables must be a map, found the text \"x\"\n" },
        { HEAD("Swarm", "s") "  agents: a\n",
          "m.yaml:5:11: agents must be a list, found the text \"a\" [a list of one is written [a]]\n" },
        { HEAD("Swarm", "s") "  agents: []\n", "m.yaml:5:11: agents must have 1 to 10000 items, found 0\n" },
        { HEAD("Swarm", "s") "  agents: [~]\n",
          "m.yaml:5:12: agents[0] has no value [an empty text is written \"\"]\n" },
        /* Unknown and duplicate. */
        { ENVIRONMENT "  memoryMb: 2048\n",
          "m.yaml:6:3: unknown field \"memoryMb\" [did you mean memoryMB?]\n" },
        { ENVIRONMENT "memoryMB: 2048\n",
          "m.yaml:6:1: unknown field \"memoryMB\" [memoryMB belongs under spec]\n" },
        { ENVIRONMENT "labels: {a: b}\n",
          "m.yaml:6:1: unknown field \"labels\" [labels belongs under metadata]\n" },
        { ENVIRONMENT "  colour: red\n",
          "m.yaml:6:3: unknown field \"colour\" [known here: description, image, memoryMB, workspaceStorageMB, "
          "timeoutSeconds, variables, reservedConcurrency, logRetentionDays, executionRole, tenantIsolation, network, protect, accept]\n" },
        { ENVIRONMENT "  <<: {memoryMB: 2048}\n",
          "m.yaml:6:3: unknown field \"<<\" [merge keys are not part of YAML 1.2: write the fields out, or use an "
          "alias for the whole map]\n" },
        { ENVIRONMENT "  memoryMB: 2048\n  memoryMB: 2048\n",
          "m.yaml:7:3: memoryMB is given twice, first on line 6\n" },
        { ENVIRONMENT "spec: {}\n", "m.yaml:6:1: spec is given twice, first on line 4\n" },
        { ENVIRONMENT "  variables: {AA: x, BB: y, AA: z}\n",
          "m.yaml:6:29: AA is given twice, first on line 6\n" },
        { ENVIRONMENT "  [a, b]: c\n", "m.yaml:6:3: a key must be a text, found a list\n" },
        { ENVIRONMENT "---\n" ENVIRONMENT,
          "m.yaml:9:18: Environment/x is declared twice, first at FOLDER/m.yaml:3:18\n" },
        { "apiVersion: berth/v1\nkind: Enviroment\nmetadata: {name: x}\n",
          "m.yaml:2:7: unknown kind \"Enviroment\" [did you mean Environment?]\n" },
        { "apiVersion: berth/v1\nkind: environments\nmetadata: {name: x}\n",
          "m.yaml:2:7: unknown kind \"environments\" [did you mean Environment?]\n" },
        { "apiVersion: berth/v1\nkind: Deployment\nmetadata: {name: x}\n",
          "m.yaml:2:7: unknown kind \"Deployment\" [the kinds are Stack, ResourceRange, Image, Environment, "
          "WorkspacePolicy, Agent and Swarm]\n" },
        { "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n",
          "m.yaml:1:13: apiVersion must be berth/v1, found the text \"apps/v1\"\n" },
        { "apiVersion: berth/v2\nkind: Agent\nmetadata: {name: x}\nspec: {kind: y}\n",
          "m.yaml:1:13: apiVersion must be berth/v1, found the text \"berth/v2\"\n"
          "m.yaml:4:8: unknown field \"kind\" [known here: type, environment, active, limits]\n" },
        { "kind: Agent\nmetadata: {name: x}\n",
          "m.yaml:1:1: apiVersion is required [write apiVersion: berth/v1]\n" },
        { "apiVersion: berth/v1\nmetadata: {name: x}\n", "m.yaml:1:1: kind is required\n" },
        { "apiVersion: berth/v1\nkind: ''\nmetadata: {name: x}\n",
          "m.yaml:2:7: kind is empty [the kinds are Stack, ResourceRange, Image, Environment, WorkspacePolicy, Agent and "
          "Swarm]\n" },
        { "apiVersion: berth/v1\nkind: Agent\n",
          "m.yaml:1:1: metadata is required [metadata: {name: NAME}]\n" },
        { "apiVersion: berth/v1\nkind: Agent\nmetadata: {}\n", "m.yaml:3:1: name is required in metadata\n" },
        { "apiVersion: berth/v1\nkind: Agent\nmetadata: {name: }\n",
          "m.yaml:3:12: name is required in metadata\n" },
        { "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x}\n",
          "m.yaml:1:1: spec is required\n" },
        { "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x}\nspec: {}\n",
          "m.yaml:4:1: image is required\n" },
        { "apiVersion: berth/v1\nkind: Agent\nmetadata: {name: x}\n", "" },
        { "apiVersion: berth/v1\nkind: Agent\nmetadata: {name: x}\nspec: [a]\n",
          "m.yaml:4:7: spec must be a map, found a list\n" },
        { "- a\n",
          "m.yaml:1:1: a manifest must be a map, found a list [a manifest has apiVersion, kind, metadata and "
          "spec]\n" },
        { "text\n",
          "m.yaml:1:1: a manifest must be a map, found the text \"text\" [a manifest has apiVersion, kind, "
          "metadata and spec]\n" },
        /* Names. */
        { HEAD("Agent", NAME_40 "nnnnnnnn") "  type: general\n", "" },
        { HEAD("Agent", NAME_40 "nnnnnnnnn") "  type: general\n",
          "m.yaml:3:18: metadata.name must have 1 to 48 characters, found 49\n" },
        { HEAD("Agent", "Upper") "  type: general\n",
          "m.yaml:3:18: metadata.name must be lower-case letters, digits and hyphens, with no hyphen at either end, "
          "found the text \"Upper\"\n" },
        { HEAD("Agent", "a-") "  type: general\n",
          "m.yaml:3:18: metadata.name must be lower-case letters, digits and hyphens, with no hyphen at either end, "
          "found the text \"a-\"\n" },
        { HEAD("Agent", "7") "  type: general\n", "" },
        { "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: s}\nspec:\n  aws: {namePrefix: a-longer-prefix}\n---\n" HEAD(
                  "Environment", NAME_40 "nnnnnnnn") "  image: {prebuilt: python}\n",
          "m.yaml:9:18: the function would be named a-longer-prefix-env-" NAME_40
          "nnnnnnnn: 68 characters, AWS Lambda "
          "allows 64 [shorten the name, or the Stack's aws.namePrefix]\n" },
        /* Variables. */
        { ENVIRONMENT "  variables: {A: x}\n",
          "m.yaml:6:15: variables.A must have 2 to 1024 characters, found 1\n" },
        { ENVIRONMENT "  variables: {2A: x}\n",
          "m.yaml:6:15: variables.2A must be a letter, then letters, digits and _, two characters at least, found the text \"2A\"\n" },
        { ENVIRONMENT "  variables: {AWS_REGION: x}\n",
          "m.yaml:6:15: AWS_REGION is reserved: AWS Lambda sets it itself\n" },
        { ENVIRONMENT "  variables: {AWS_XRAY_CONTEXT_MISSING: x, TZ: UTC}\n", "" },
        { ENVIRONMENT "  variables: {AA: }\n",
          "m.yaml:6:19: variables.AA has no value [an empty text is written \"\"]\n" },
        { ENVIRONMENT "  variables: {AA: '', BB: no, CC: 5, DD: {value: x}}\n", "" },
        { ENVIRONMENT "  variables: {AA: {sensitive: true}}\n",
          "m.yaml:6:20: sensitive means nothing without value\n" },
        { ENVIRONMENT "  variables: {AA: {}}\n",
          "m.yaml:6:15: variables.AA needs value, secret or parameter\n" },
        { ENVIRONMENT "  variables: {AA: {secret: '" SECRET "'}, BB: {parameter: '" PARAMETER "'}}\n", "" },
        { ENVIRONMENT "  variables: {AA: {secret: '" SECRET ":key::'}, BB: {secret: '" SECRET ":::" ID
                      "'}}\n",
          "" },
        { ENVIRONMENT "  variables: {AA: {secret: '" SECRET "::AWSPREVIOUS:'}}\n", "" },
        { ENVIRONMENT "  variables: {AA: {secret: '" SECRET "', value: x}}\n",
          "m.yaml:6:99: only one of value, secret or parameter can be given\n" },
        { ENVIRONMENT "  variables: {AA: {secret: '" SECRET "', sensitive: true}}\n",
          "m.yaml:6:99: sensitive means nothing without value\n" },
        { ENVIRONMENT "  variables: {AA: {secret: '" SECRET "::AWSCURRENT:" ID "'}}\n",
          "m.yaml:6:28: a secret's version is named by its stage or by its id, not by both [leave the stage empty: "
          "...:JSON-KEY::VERSION-ID]\n" },
        /* Text that stands there by mistake may be the secret itself. */
        { ENVIRONMENT "  variables: {AA: {secret: hunter2}}\n",
          "m.yaml:6:28: variables.AA.secret must be a secret's whole ARN, such as arn:aws:secretsmanager:eu-west-1:"
          "123456789012:secret:NAME-AbCdEf, or that and :JSON-KEY:VERSION-STAGE:VERSION-ID, found another text, "
          "which may be a secret\n" },
        /* Without the six characters that AWS adds it could be another secret's beginning. */
        { ENVIRONMENT "  variables: {AA: {parameter: '" SECRET "'}}\n",
          "m.yaml:6:31: variables.AA.parameter must be a parameter's ARN, such as arn:aws:ssm:eu-west-1:"
          "123456789012:parameter/PATH/NAME, found another text, which may be a secret\n" },
        { ENVIRONMENT "  variables: {AA: [x]}\n",
          "m.yaml:6:19: variables.AA must be a text or a map, found a list\n" },
        /* Images. */
        { HEAD("Environment", "x") "  image: {repository: a/b, tag: c, digest: '" DIGEST "'}\n",
          "m.yaml:5:36: only one of prebuilt, tag or digest can be given\n" },
        { HEAD("Environment", "x") "  image: {repository: a/b}\n",
          "m.yaml:5:3: image needs prebuilt, tag or digest\n" },
        { HEAD("Environment", "x") "  image: {tag: b}\n",
          "m.yaml:5:11: tag means nothing without repository\n" },
        { HEAD("Environment", "x") "  image: {prebuilt: python, tag: b}\n",
          "m.yaml:5:29: tag means nothing without repository\n" },
        { HEAD("Environment", "x") "  image: {repository: a/b, digest: '" DIGEST "', follow: tag}\n",
          "m.yaml:5:111: follow means nothing without tag\n" },
        { HEAD("Environment", "x") "  image: {repository: a/b, digest: 'sha256:abc'}\n",
          "m.yaml:5:36: image.digest must be a digest: sha256: and 64 lower-case hex digits, found the text "
          "\"sha256:abc\"\n" },
        { HEAD("Environment", "x") "  image: {repository: 'a/b:c', tag: c}\n",
          "m.yaml:5:23: image.repository must be a repository's name as in ECR (lower-case letters, digits, . _ - and "
          "/), found the text \"a/b:c\" [the name alone: registry, tag and digest are fields beside it]\n" },
        { HEAD("Environment",
               "x") "  image: {repository: 123456789012.dkr.ecr.eu-west-1.amazonaws.com/a, tag: c}\n",
          "m.yaml:5:23: repository must not name a registry, found "
          "\"123456789012.dkr.ecr.eu-west-1.amazonaws.com/a\" [name the repository alone; another account's "
          "registry goes into the field registry]\n" },
        { HEAD("Environment", "x") "  image: {registry: 'docker.io', repository: a/b, tag: c}\n",
          "m.yaml:5:21: image.registry must be an ECR registry, such as "
          "123456789012.dkr.ecr.eu-west-1.amazonaws.com, found the text \"docker.io\"\n" },
        { HEAD("Environment",
               "x") "  image: {registry: 123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.example, "
                    "repository: a/b, tag: c}\n",
          "m.yaml:5:21: image.registry must be an ECR registry, such as "
          "123456789012.dkr.ecr.eu-west-1.amazonaws.com, found the text "
          "\"123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.example\"\n" },
        { HEAD("Environment",
               "x") "  image: {registry: 123456789012.dkr.ecr.eu-west-1.amazonaws.com, prebuilt: p}\n",
          "m.yaml:5:11: registry means nothing without repository\n" },
        { HEAD("Image",
               "i") "  registry: 123456789012.dkr.ecr.eu-west-1.amazonaws.com\n  repository: a/b\n  tag: c\n"
                    "  createRepository: true\n  scanOnPush: false\n",
          "m.yaml:8:21: createRepository cannot be set in another registry: Berth only reads there [set it where "
          "the repository is made]\n"
          "m.yaml:9:15: scanOnPush cannot be set in another registry: Berth only reads there [set it where "
          "the repository is made]\n" },
        { HEAD("Stack", "s") "  aws: {region: eu-central-1}\n---\n" HEAD(
                  "Environment",
                  "x") "  image: {registry: 123456789012.dkr.ecr.eu-west-1.amazonaws.com, repository: a/b, tag: c}\n",
          "m.yaml:11:21: the registry is in eu-west-1, the stack in eu-central-1: Lambda takes images of its own "
          "region alone [name a registry of the stack's region; ECR can replicate repositories there]\n" },
        { HEAD("Environment", "x") "  image: python\n",
          "m.yaml:5:10: no Image is named \"python\" [the name of an Image, or {prebuilt: NAME}, or {repository: NAME, "
          "tag: TAG}]\n" },
        { HEAD("Image", "i") "  repository: a/b\n", "m.yaml:4:1: spec needs tag or digest\n" },
        { IMAGE "  immutableTags: true\n  mutableTags: [latest, 'dev-*', a.b_c-1]\n", "" },
        { IMAGE "  mutableTags: [latest]\n",
          "m.yaml:7:3: mutableTags means nothing without immutableTags\n" },
        { IMAGE "  immutableTags: false\n  mutableTags: [latest]\n",
          "m.yaml:8:16: mutableTags are exceptions to immutableTags, which is false [set immutableTags: true, or leave mutableTags out]\n" },
        { IMAGE "  immutableTags: true\n  mutableTags: []\n",
          "m.yaml:8:16: mutableTags must have 1 to 5 items, found 0\n" },
        { IMAGE "  immutableTags: true\n  mutableTags: [a, b, c, d, e, f]\n",
          "m.yaml:8:16: mutableTags must have 1 to 5 items, found 6\n" },
        { IMAGE "  immutableTags: true\n  mutableTags: [a, a]\n",
          "m.yaml:8:20: a is named twice, first on line 8\n" },
        { IMAGE "  immutableTags: true\n  mutableTags: ['a b']\n",
          "m.yaml:8:17: mutableTags[0] must be an image tag, in which * stands for any characters, found the text \"a b\"\n" },
        { HEAD("Image", "i") "  repository: a/b\n  tag: c\n  scanOnPush: true\n---\n" HEAD(
                  "Image", "j") "  repository: a/b\n  tag: d\n  scanOnPush: false\n",
          "m.yaml:15:15: scanOnPush of this repository differs from what Image/i says (FOLDER/m.yaml:7:15) [set it in "
          "one of them]\n" },
        /* One slip, one error: what a field that is near to it would have been is not missed as well. */
        { HEAD("Environment", "x") "  image: {prebiult: python}\n",
          "m.yaml:5:11: unknown field \"prebiult\" [did you mean prebuilt?]\n" },
        { HEAD("Environment", "x") "  imgae: {prebuilt: python}\n",
          "m.yaml:5:3: unknown field \"imgae\" [did you mean image?]\n" },
        { HEAD("Environment", "x") "  image: {repositry: a/b, tag: c}\n",
          "m.yaml:5:11: unknown field \"repositry\" [did you mean repository?]\n" },
        /* References. */
        { HEAD("Agent", "a") "  environment: absent\n", "m.yaml:5:16: no Environment is named \"absent\"\n" },
        { HEAD("Environment",
               "scratch") "  image: {prebuilt: python}\n---\n" HEAD("Agent", "a") "  environment: scrtch\n",
          "m.yaml:11:16: no Environment is named \"scrtch\" [did you mean scratch?]\n" },
        { HEAD("Swarm", "s") "  agents: [a]\n", "m.yaml:5:12: no Agent is named \"a\"\n" },
        /*
         * A name that stands where nothing could be read is not missed. A name that stands nowhere
         * is.
         */
        { HEAD("Environment", "x") "  image: {prebuilt: python\n---\n" HEAD(
                  "Agent", "a") "  environment: x\n---\n" HEAD("Agent", "b") "  environment: elsewhere\n",
          "m.yaml:6:1: not valid YAML: a map in braces goes on without a comma, or is not closed [while parsing a flow "
          "mapping that begins on line 5]\nm.yaml:17:16: no Environment is named \"elsewhere\"\n" },
        { HEAD("Enviroment", "x") "---\n" HEAD("Agent", "a") "  environment: x\n",
          "m.yaml:2:7: unknown kind \"Enviroment\" [did you mean Environment?]\n" },
        { HEAD("Agent", "a") "---\n" HEAD("Swarm", "s") "  agents: [a, a]\n",
          "m.yaml:10:15: a is named twice, first on line 10\n" },
        { HEAD("Agent", "a") "  type: specialist\n",
          "m.yaml:3:18: a specialist without an environment cannot be active [name its environment, or write active: "
          "false]\n" },
        { HEAD("Agent", "a") "  type: specialist\n  active: true\n",
          "m.yaml:6:11: a specialist without an environment cannot be active [name its environment, or write active: "
          "false]\n" },
        { HEAD("Agent", "a") "  type: specialist\n  active: false\n", "" },
        { HEAD("Agent", "a") "  type: specialist\n  environment: [x]\n",
          "m.yaml:6:16: environment must be a text, found a list\n" },
        { HEAD("Agent", "a") "  type: spezialist\n",
          "m.yaml:5:9: type must be specialist or general, found the text \"spezialist\" [did you mean specialist?]\n" },
        /* Policies. */
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true}\n",
          "m.yaml:4:1: spec needs at least one of transitions, expireAfterDays, noncurrentExpireAfterDays or "
          "abortIncompleteUploadDays\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: false}\n  expireAfterDays: 3\n",
          "m.yaml:5:19: selector.all can only be true\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true, matchLabels: {a: b}}\n  expireAfterDays: 3\n",
          "m.yaml:5:25: only one of environments, matchLabels or all can be given\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {}\n  expireAfterDays: 3\n",
          "m.yaml:5:3: selector needs environments, matchLabels or all\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {matchLabels: {a: b}}\n  expireAfterDays: 3\n",
          "m.yaml:5:27: warning: no Environment has these labels\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {environments: [absent]}\n  expireAfterDays: 3\n",
          "m.yaml:5:29: no Environment is named \"absent\"\n" },
        { HEAD("WorkspacePolicy",
               "p") "  selector: {all: true}\n  transitions: [{afterDays: 5, storageClass: "
                    "STANDARD_IA}]\n",
          "m.yaml:6:29: S3 moves files to STANDARD_IA after 30 days at the earliest, found 5\n" },
        { HEAD("WorkspacePolicy",
               "p") "  selector: {all: true}\n  transitions: [{afterDays: 0, storageClass: GLACIER}]\n",
          "" },
        { HEAD("WorkspacePolicy",
               "p") "  selector: {all: true}\n  transitions: [{afterDays: 0, storageClass: COLD}]\n",
          "m.yaml:6:46: transitions[0].storageClass must be STANDARD_IA, INTELLIGENT_TIERING, ONEZONE_IA, GLACIER_IR, "
          "GLACIER or DEEP_ARCHIVE, found the text \"COLD\"\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true}\n  transitions: [{afterDays: 3}]\n",
          "m.yaml:6:17: storageClass is required in transitions[0]\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true}\n  transitions:\n"
                                       "  - {afterDays: 60, storageClass: GLACIER}\n"
                                       "  - {afterDays: 50, storageClass: GLACIER_IR}\n",
          "m.yaml:8:17: afterDays is 50, not after the transition before it, 60\n"
          "m.yaml:8:35: S3 moves nothing from GLACIER to GLACIER_IR [the order is STANDARD_IA, INTELLIGENT_TIERING, "
          "ONEZONE_IA or GLACIER_IR, GLACIER, DEEP_ARCHIVE]\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true}\n  transitions:\n"
                                       "  - {afterDays: 30, storageClass: ONEZONE_IA}\n"
                                       "  - {afterDays: 60, storageClass: GLACIER_IR}\n",
          "m.yaml:8:35: S3 moves nothing from ONEZONE_IA to GLACIER_IR [the order is STANDARD_IA, "
          "INTELLIGENT_TIERING, ONEZONE_IA or GLACIER_IR, GLACIER, DEEP_ARCHIVE]\n" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true}\n  transitions:\n"
                                       "  - {afterDays: 0, storageClass: INTELLIGENT_TIERING}\n"
                                       "  - {afterDays: 60, storageClass: ONEZONE_IA}\n"
                                       "  - {afterDays: 90, storageClass: GLACIER}\n",
          "" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true}\n  transitions:\n"
                                       "  - {afterDays: 30, storageClass: STANDARD_IA}\n"
                                       "  - {afterDays: 59, storageClass: GLACIER}\n",
          "m.yaml:8:17: S3 keeps files in STANDARD_IA for 30 days before it moves them on: afterDays must be at least "
          "60, found 59\n" },
        { HEAD("WorkspacePolicy",
               "p") "  selector: {all: true}\n  transitions: [{afterDays: 60, storageClass: GLACIER}]\n"
                    "  expireAfterDays: 60\n",
          "m.yaml:7:20: expireAfterDays is 60, not after the last transition, 60\n" },
        { ENVIRONMENT "---\n" HEAD("WorkspacePolicy", "p") "  selector: {environments: [x]}\n"
                                                           "  abortIncompleteUploadDays: 3\n",
          "m.yaml:12:30: abortIncompleteUploadDays needs selector {all: true}: unfinished uploads have no tags to "
          "select by [put it into a policy with selector {all: true}]\n" },
        /* Stacks. */
        { HEAD("Stack", "s") "  provider: azure\n",
          "m.yaml:5:13: provider must be aws or local, found the text \"azure\"\n" },
        { HEAD("Stack", "s") "  aws: {account: 123456789012, region: eu-central-1}\n", "" },
        { HEAD("Stack", "s") "  aws: {account: 12345, region: europe}\n",
          "m.yaml:5:18: aws.account must be an AWS account: 12 digits, found 12345\n"
          "m.yaml:5:33: aws.region must be an AWS region, such as eu-central-1, found the text \"europe\"\n" },
        { HEAD("Stack", "s") "  aws: {executionRole: some-role}\n",
          "m.yaml:5:24: aws.executionRole must be the ARN of an IAM role, such as "
          "arn:aws:iam::123456789012:role/NAME, found the text \"some-role\"\n" },
        { HEAD("Stack",
               "s") "  aws: {account: 123456789012, executionRole: arn:aws:iam::123456789012:role/r}\n",
          "" },
        { HEAD("Stack", "s") "  aws: {executionRole: arn:aws:iam::123456789012:role/a/b/}\n",
          "m.yaml:5:24: aws.executionRole must be the ARN of an IAM role, such as "
          "arn:aws:iam::123456789012:role/NAME, found the text \"arn:aws:iam::123456789012:role/a/b/\"\n" },
        { HEAD("Stack", "s") "  aws: {executionRole: arn:aws:iam::123456789012:role/a//b}\n",
          "m.yaml:5:24: aws.executionRole must be the ARN of an IAM role, such as "
          "arn:aws:iam::123456789012:role/NAME, found the text \"arn:aws:iam::123456789012:role/a//b\"\n" },
        { HEAD("Stack", "s") "  aws: {permissionsBoundary: arn:aws:iam::aws:policy/job-function/Billing}\n",
          "" },
        { HEAD("Stack", "s") "  aws: {permissionsBoundary: arn:aws:iam::123456789012:policy//a}\n",
          "m.yaml:5:30: aws.permissionsBoundary must be the ARN of an IAM policy, such as "
          "arn:aws:iam::123456789012:policy/NAME, found the text \"arn:aws:iam::123456789012:policy//a\"\n" },
        { HEAD("Stack", "s") "  aws: {permissionsBoundary: arn:aws:iam::123456789012:policy/a/}\n",
          "m.yaml:5:30: aws.permissionsBoundary must be the ARN of an IAM policy, such as "
          "arn:aws:iam::123456789012:policy/NAME, found the text \"arn:aws:iam::123456789012:policy/a/\"\n" },
        { HEAD("Stack",
               "s") "  aws: {account: 123456789012, executionRole: arn:aws:iam::210987654321:role/r}\n",
          "m.yaml:5:47: the role is in account 210987654321, the stack in 123456789012: functions run with roles of "
          "their own account alone\n" },
        { HEAD("Stack", "s") "  aws: {kmsKey: alias/agents}\n",
          "m.yaml:5:17: aws.kmsKey must be the ARN of a KMS key, such as arn:aws:kms:eu-central-1:123456789012:key/...; "
          "an alias may be moved to another key unseen, found the text \"alias/agents\"\n" },
        { HEAD("Stack", "s") "  aws: {region: eu-west-1, account: 123456789012, kmsKey: "
                             "arn:aws:kms:eu-west-1:210987654321:key/mrk-0123456789abcdef0123456789abcdef}\n",
          "" },
        { HEAD("Stack", "s") "  aws: {region: eu-west-1, kmsKey: "
                             "arn:aws:kms:eu-west-2:123456789012:key/01234567-89ab-cdef-0123-456789abcdef}\n",
          "m.yaml:5:36: the key is in the region eu-west-2, the stack in eu-west-1: a key encrypts in its own region "
          "alone\n" },
        { HEAD("Stack", "s") "  aws: {account: 123456789012}\n---\n" HEAD(
                  "Environment", "x") "  image: {prebuilt: python}\n"
                                      "  executionRole: arn:aws:iam::210987654321:role/r\n",
          "m.yaml:12:18: the role is in account 210987654321, the stack in 123456789012: functions run with roles of "
          "their own account alone\n" },
        { ENVIRONMENT "  executionRole: own\n", "" },
        { ENVIRONMENT "  executionRole: arn:aws:iam::123456789012:role/a/b\n", "" },
        { ENVIRONMENT "  executionRole: arn:aws:iam::123456789012:role/a/\n",
          "m.yaml:6:18: executionRole must be own, or the ARN of an IAM role, such as "
          "arn:aws:iam::123456789012:role/NAME, found the text \"arn:aws:iam::123456789012:role/a/\"\n" },
        { ENVIRONMENT "  executionRole: theirs\n",
          "m.yaml:6:18: executionRole must be own, or the ARN of an IAM role, such as "
          "arn:aws:iam::123456789012:role/NAME, found the text \"theirs\"\n" },
        { HEAD("Stack", "s") "  aws: {network: open}\n", "" },
        { HEAD("Stack", "s") "  aws: {network: {subnets: [subnet-01234567], securityGroups: [vpc-1]}}\n",
          "m.yaml:5:64: aws.network.securityGroups[0] must be a security group's id, such as sg-0123456789abcdef0, found "
          "the text \"vpc-1\"\n" },
        { HEAD("Stack", "s") "  aws: {namePrefix: sthree}\n",
          "m.yaml:5:21: the bucket would be named sthree-workspaces-ACCOUNT-REGION: S3 keeps names that begin with "
          "sthree- for itself\n" },
        { HEAD("Stack", "s") "  aws: {namePrefix: xn--a}\n",
          "m.yaml:5:21: the bucket would be named xn--a-workspaces-ACCOUNT-REGION: S3 keeps names that begin with "
          "xn-- for itself\n" },
        { HEAD("Stack", "s") "  aws: {namePrefix: sthrees}\n", "" },
        { HEAD("Stack", "s") "  tags: {Team: a, stage: b, team: c, TEAM: d}\n",
          "m.yaml:5:29: tags.Team and tags.team differ by case only: IAM takes them for one key\n"
          "m.yaml:5:38: tags.Team and tags.TEAM differ by case only: IAM takes them for one key\n" },
        { HEAD("Stack", "s") "  tags: {aws:x: a, 'BERTH:y': b, 'a#b': c, ok: d}\n",
          "m.yaml:5:10: tags that begin with aws: are not yours to set\n"
          "m.yaml:5:20: tags that begin with berth: are not yours to set\n"
          "m.yaml:5:34: tags.a#b must be letters, digits, spaces and . : / = + - @ _, found the text \"a#b\"\n" },
        { HEAD("Stack", "s") "  tags: {\xC3\x9C\xE6\xBC\xA2 \xD9\xA3: \"a\xC2\xA0z_.:/=+-@9\", e: \"\"}\n",
          "" },
        { HEAD("Stack",
               "s") "  tags: {a: \"x\\u202Ey\", \"b\\u200B\": c, d: \"e\\nf\", g: \"\xF0\x9F\x98\x80\"}\n",
          "m.yaml:5:13: tags.a must be letters, digits, spaces and . : / = + - @ _, found U+202E\n"
          "m.yaml:5:25: tags.b\xE2\x80\x8B must be letters, digits, spaces and . : / = + - @ _, found U+200B\n"
          "m.yaml:5:42: tags.d must be letters, digits, spaces and . : / = + - @ _, found the control character "
          "U+000A\n"
          "m.yaml:5:53: tags.g must be letters, digits, spaces and . : / = + - @ _, found U+1F600\n" },
        { HEAD("Stack", "s") "---\n" HEAD("Stack", "t"),
          "m.yaml:8:18: a second Stack: there can be one, and Stack/s is at FOLDER/m.yaml:3:18\n" },
        { HEAD("Stack", "s") "  guards: {maxDeletePercent: 101}\n",
          "m.yaml:5:30: guards.maxDeletePercent must be 0 to 100, found 101\n" },
        /* YAML itself. */
        { ENVIRONMENT "\tx: y\n", "m.yaml:6:1: not valid YAML: a tab cannot indent [use spaces]\n" },
        { "a: b: c\n",
          "m.yaml:1:5: not valid YAML: a second \": \" on one line [a text that holds \": \" needs quotes; a "
          "map begins on a line of its own]\n" },
        { "a: [b\n",
          "m.yaml:2:1: not valid YAML: a list in brackets goes on without a comma, or is not closed [while "
          "parsing a flow sequence that begins on line 1]\n" },
        { "a: @b\n",
          "m.yaml:1:4: not valid YAML: no text can begin with this character [put the text in quotes]\n" },
        { "a: \"b\n",
          "m.yaml:2:1: not valid YAML: the file ends inside of a text: a quote is missing [while scanning a "
          "quoted scalar that begins on line 1]\n" },
        { "a: [b\n---\n" ENVIRONMENT "  memoryMB: 1\n",
          "m.yaml:2:1: not valid YAML: a list in brackets goes on without a comma, or is not closed [while parsing a "
          "flow sequence that begins on line 1]\n"
          "m.yaml:8:13: memoryMB must be 1769 to 10240, found 1\n" },
        { ENVIRONMENT "  description: *absent\n",
          "m.yaml:6:16: an alias without an anchor: *absent [anchors (&NAME) must stand above, in the same "
          "document]\n" },
        { ENVIRONMENT "  variables: &a\n    NAME: *a\n",
          "m.yaml:7:11: an alias that refers to itself: *a\n" },
        { ENVIRONMENT "  variables: {AA: &v x, BB: *v}\n", "" },
        { ENVIRONMENT "  memoryMB: &m 2048\n  workspaceStorageMB: *m\n", "" },
        { ENVIRONMENT "  memoryMB: &m 20480\n  workspaceStorageMB: *m\n",
          "m.yaml:6:13: memoryMB must be 1769 to 10240, found 20480\n"
          "m.yaml:7:23: workspaceStorageMB must be 512 to 10240, found 20480\n" },
        { ENVIRONMENT "  description: \"a\\0b\"\n",
          "m.yaml:6:16: this text holds an escaped NUL (\\0), which no text in a manifest may\n" },
        { ENVIRONMENT "  description: !thing x\n",
          "m.yaml:6:16: the tag !thing means nothing here: leave it out\n" },
        { ENVIRONMENT "  variables: {NAME: x, \xC3\x9C: y}\n",
          "m.yaml:6:24: variables.\xC3\x9C must have 2 to 1024 characters, found 1\n" },
        { ENVIRONMENT "  variables: {NAME: \xC3\xA4\xC3\xB6, A: y}\n",
          "m.yaml:6:25: variables.A must have 2 to 1024 characters, found 1\n" },
        { ENVIRONMENT "  description: a\xFF\n",
          "m.yaml:6:17: invalid UTF-8 (byte 0xFF) [save the file as UTF-8]\n" },
        { ENVIRONMENT "  description: a\x01\n",
          "m.yaml:6:17: a control character (byte 0x01) cannot stand in a manifest\n" },
        { "\xFF\xFE"
          "a",
          "m.yaml:0:0: this file is UTF-16 [save it as UTF-8]\n" },
        { "\xEF\xBB\xBF" ENVIRONMENT "  memoryMB: 1\n",
          "m.yaml:6:13: memoryMB must be 1769 to 10240, found 1\n" },
        { HEAD("Agent", "a") "\xEF\xBB\xBF---\n" HEAD("Agent", "b") "\xEF\xBB\xBF# c\n\xEF\xBB\xBF\n---\r\n" HEAD(
                  "Agent", "c") "...\n\xEF\xBB\xBF%YAML 1.2\n---\n" ENVIRONMENT
                                "  memoryMB: 1\n\xEF\xBB\xBF--- x\n",
          "m.yaml:25:13: memoryMB must be 1769 to 10240, found 1\n"
          "m.yaml:26:5: a manifest must be a map, found the text \"x\" [a manifest has apiVersion, kind, metadata and "
          "spec]\n" },
        { HEAD("Agent", "a") "\xEF\xBB\xBF" HEAD("Agent", "b") "---\n" HEAD("Agent", "a"),
          "m.yaml:5:1: a byte order mark (U+FEFF) without --- before it: another file begins here [put a line of "
          "--- before it]\n" },
        { "\xEF\xBB\xBF\xEF\xBB\xBF" HEAD("Agent", "a"), "" },
        { "a: [b,\n\xEF\xBB\xBF- c]\n",
          "m.yaml:2:2: not valid YAML: a byte order mark (U+FEFF) in the middle of a document [remove it, or begin a "
          "document there with ---]\n" },
        { HEAD("Agent", "a") "  type: \"g\n\xEF\xBB\xBFh \xEF\xBB\xBF--- i\"\n",
          "m.yaml:5:9: type must be specialist or general, found the text \"g \xEF\xBB\xBFh \xEF\xBB\xBF--- i\"\n" },
        { "\xEF\xBB\xBF"
          "a: 1",
          "m.yaml:1:1: apiVersion is required [write apiVersion: berth/v1]\n"
          "m.yaml:1:1: kind is required\n"
          "m.yaml:1:1: metadata is required [metadata: {name: NAME}]\n"
          "m.yaml:1:1: unknown field \"a\" [a manifest has apiVersion, kind, metadata and spec]\n" },
        { "apiVersion: berth/v1\r\nkind: Agent\r\nmetadata: {name: x}\r\nspec:\r\n  type: y\r\n",
          "m.yaml:5:9: type must be specialist or general, found the text \"y\"\n" },
        { "", "m.yaml:0:0: " NO_MANIFEST },
        { "# nothing\n", "m.yaml:0:0: " NO_MANIFEST },
        { "---\n---\n~\n", "m.yaml:0:0: " NO_MANIFEST },
        { "%YAML 1.2\n---\n" ENVIRONMENT, "" },
};

static void table(void **state) {
        size_t failed = 0;

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct loaded loaded;
                bool expect_failure = *cases[i].said && !strstr(cases[i].said, "warning: ");

                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", cases[i].yaml);
                loaded_load(&loaded, "m.yaml", NULL);
                if (strcmp(said_without_folder(&loaded), cases[i].said) != 0 ||
                    (loaded.result == -1 && loaded.err.kind == ERROR_DIAGNOSED) != expect_failure) {
                        print_error("--- of\n%s\n--- expected\n%s--- found (%d)\n%s\n", cases[i].yaml,
                                    cases[i].said, loaded.result, said_without_folder(&loaded));
                        failed++;
                }
                loaded_end(&loaded);
        }
        assert_int_equal(failed, 0);
}

/* All errors of all files, in the files' order; dot-folders and other names are left alone. */
static void folder(void **state) {
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "b.yml", ENVIRONMENT "  memoryMB: 1\n");
        loaded_write(&loaded, "a.yaml", HEAD("Agent", "a") "  environment: y\n");
        loaded_write(&loaded, "a/c.yaml", HEAD("Agent", "a"));
        loaded_write(&loaded, "folder.yaml/d.yaml", "a: [\n");
        loaded_write(&loaded, ".hidden/e.yaml", "a: [\n");
        loaded_write(&loaded, ".e.yaml", "a: [\n");
        loaded_write(&loaded, "notes.txt", "a: [\n");
        loaded_write(&loaded, "empty.yaml", "");
        loaded_load(&loaded, "", NULL);
        assert_int_equal(loaded.result, -1);
        assert_int_equal(loaded.err.kind, ERROR_DIAGNOSED);
        assert_string_equal(loaded.err.message, "4 errors in the manifests");
        assert_string_equal(
                said_without_folder(&loaded),
                "a.yaml:5:16: no Environment is named \"y\" [did you mean x?]\n"
                "a/c.yaml:3:18: Agent/a is declared twice, first at FOLDER/a.yaml:3:18\n"
                "b.yml:6:13: memoryMB must be 1769 to 10240, found 1\n"
                "empty.yaml:0:0: warning: this file holds no manifest\n"
                "folder.yaml/d.yaml:2:1: not valid YAML: did not find expected node content [while parsing "
                "a flow node that begins on line 2]\n");
        loaded_end(&loaded);
}

/* Loads, points at itself and becomes JSON; also a message that is cut inside of a character. */
static void names_beyond_utf8(void **state) {
        struct loaded loaded;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json;

        (void)state;
        strbuf_append(&text, HEAD("Agent", "a") "---\n" HEAD("Agent", "a") "  xxx");
        for (int i = 0; i < 60; i++)
                strbuf_append(&text, "\xC3\xA4");
        strbuf_append(&text, ": 1\n");
        loaded_begin(&loaded);
        loaded_write(&loaded, "\xE4.yaml", strbuf_text(&text));
        loaded_load(&loaded, "\xE4.yaml", NULL);
        assert_int_equal(loaded.diagnostics.count, 2);
        json = diagnostics_to_json(&loaded.diagnostics);
        for (size_t i = 0; i < 2; i++) {
                const json_t *item = json_array_get(json, i);
                const char *file = json_string_value(json_object_get(item, "file"));

                assert_non_null(strstr(file, "/\\xE4.yaml"));
                assert_non_null(json_string_value(json_object_get(item, "message")));
        }
        assert_non_null(strstr(json_string_value(json_object_get(json_array_get(json, 0), "message")),
                               "/\\xE4.yaml:3:18"));
        json_decref(json);
        loaded_end(&loaded);
}

static void folder_without_manifests(void **state) {
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "notes.txt", "x");
        loaded_load(&loaded, "", NULL);
        assert_int_equal(loaded.err.kind, ERROR_DIAGNOSED);
        assert_non_null(strstr(strbuf_text(&loaded.said), "no manifests in this folder"));
        loaded_end(&loaded);
}

static void paths_of_no_use(void **state) {
        struct loaded loaded;
        char said[300];

        (void)state;
        loaded_begin(&loaded);
        loaded_load(&loaded, "absent", NULL);
        assert_int_equal(loaded.err.kind, ERROR_NOT_FOUND);
        assert_non_null(strstr(loaded.err.message, "absent"));
        assert_int_equal(loaded.diagnostics.count, 0);
        assert_int_equal(symlink("loop.yaml", loaded_path(&loaded, "loop.yaml")), 0);
        assert_int_equal(symlink("nowhere", loaded_path(&loaded, "stale.yaml")), 0);
        assert_int_equal(symlink(".", loaded_path(&loaded, "self.yaml")), 0);
        assert_int_equal(mkfifo(loaded_path(&loaded, "pipe.yaml"), 0600), 0);
        loaded_load(&loaded, "", NULL);
        snprintf(said, sizeof(said), /* each C library has words of its own */
                 "loop.yaml:0:0: the file cannot be read: %s\n"
                 "pipe.yaml:0:0: this is no regular file\n"
                 "stale.yaml:0:0: the file cannot be read: No such file or directory\n",
                 strerror(ELOOP));
        assert_string_equal(strbuf_text(&loaded.said), said);
        loaded_end(&loaded);
}

static void unreadable(void **state) {
        struct loaded loaded;

        (void)state;
        if (geteuid() == 0)
                skip();
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml", ENVIRONMENT);
        assert_int_equal(chmod(loaded_path(&loaded, "m.yaml"), 0), 0);
        loaded_load(&loaded, "", NULL);
        assert_string_equal(strbuf_text(&loaded.said),
                            "m.yaml:0:0: the file cannot be read: Permission denied\n");
        loaded_end(&loaded);
}

static void sizes(void **state) {
        size_t limit = (size_t)16 * 1024 * 1024;
        char *text = malloc(limit + 1);

        (void)state;
        assert_non_null(text);
        memset(text, '#', limit + 1);
        memcpy(text, ENVIRONMENT, sizeof(ENVIRONMENT) - 1);
        for (size_t length = limit; length <= limit + 1; length++) {
                struct loaded loaded;

                loaded_begin(&loaded);
                loaded_write_bytes(&loaded, "m.yaml", text, length);
                loaded_load(&loaded, "m.yaml", NULL);
                assert_string_equal(
                        strbuf_text(&loaded.said),
                        length == limit ? ""
                                        : "m.yaml:0:0: the file is larger than 16 MiB [split it: a folder "
                                          "may hold many files]\n");
                loaded_end(&loaded);
        }
        free(text);
}

static void nesting(void **state) {
        (void)state;
        for (size_t depth = 63; depth <= 66; depth++) {
                struct loaded loaded;
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

                /* The document's map is the first level. */
                strbuf_append(&text, "x: ");
                for (size_t i = 1; i < depth; i++)
                        strbuf_append_char(&text, '[');
                for (size_t i = 1; i < depth; i++)
                        strbuf_append_char(&text, ']');
                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", strbuf_text(&text));
                loaded_load(&loaded, "m.yaml", NULL);
                assert_int_equal(strstr(strbuf_text(&loaded.said),
                                        "m.yaml:1:67: lists and maps nest more than 64 deep") != NULL,
                                 depth > 64);
                loaded_end(&loaded);
        }
}

/* Each of ten aliases stands for ten of the line before: as text a few hundred bytes, expanded a billion. */
static void alias_bomb(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct loaded loaded;

        (void)state;
        strbuf_append(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for (int i = 1; i < 10; i++) {
                strbuf_printf(&text, "a%d: &a%d [", i, i);
                for (int j = 0; j < 10; j++)
                        strbuf_printf(&text, "*a%d, ", i - 1);
                strbuf_append(&text, "]\n");
        }
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml", strbuf_text(&text));
        loaded_load(&loaded, "m.yaml", NULL);
        assert_non_null(
                strstr(strbuf_text(&loaded.said), "the aliases of this document expand to too much: *a"));
        assert_true(arena_size(loaded.arena) < (size_t)4 * 1024 * 1024);
        loaded_end(&loaded);
}

/* Beyond ten thousand errors they are counted. */
static void very_many_errors(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct loaded loaded;

        (void)state;
        for (int i = 0; i < 12000; i++) {
                strbuf_printf(&text, "---\n" HEAD("Agent", "a%d") "  environment: absent-%d\n", i, i);
                if (i != 10000)
                        continue;
                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", strbuf_text(&text));
                loaded_load(&loaded, "m.yaml", NULL);
                assert_string_equal(loaded.diagnostics.items[10000].message, "1 more error is not shown");
                loaded_end(&loaded);
        }
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml", strbuf_text(&text));
        loaded_load(&loaded, "m.yaml", NULL);
        assert_string_equal(loaded.err.message, "12000 errors in the manifests");
        assert_int_equal(loaded.diagnostics.count, 10001);
        assert_string_equal(loaded.diagnostics.items[10000].message, "2000 more errors are not shown");
        loaded_end(&loaded);
}

/* Where a line with an error holds a secret as well, the secret is not repeated. */
static void secrets_are_not_quoted(void **state) {
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml",
                     ENVIRONMENT
                     "  variables: {A: x, TOKEN: {value: hunter2, sensitive: true}, KEY: {valeu: hunter3}, "
                     "LONG: {value: \"hunter\n    four\", sensitive: tru}, B: y}\n");
        loaded_load(&loaded, "m.yaml", NULL);
        assert_int_equal(loaded.result, -1);
        assert_true(loaded.diagnostics.count > 3);
        for (size_t i = 0; i < loaded.diagnostics.count; i++) {
                const struct diagnostic *diagnostic = &loaded.diagnostics.items[i];

                assert_non_null(diagnostic->source_line);
                assert_null(strstr(diagnostic->source_line, "hunter"));
                assert_null(strstr(diagnostic->source_line, "four"));
        }
        assert_null(strstr(strbuf_text(&loaded.said), "hunter"));
        loaded_end(&loaded);
}

/* Nor where the error comes before, or stands in the way of, knowing what is a secret. */
static void secrets_are_not_quoted_before_they_are_known(void **state) {
        static const char *const wrong[] = {
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: \"hunter2\\0\"}}\n",
                ENVIRONMENT
                "  variables: {PW: {sensitive: false, value: \"hunter2\\0\"}, QQ: {value: \"hunter\\0\"}}\n",
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: \"hunter2\x01\"}}\n",
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: \"hunter2\xFF\"}}\n",
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: \"hunter2\xC2\x81\"}}\n",
                ENVIRONMENT "  variables: {PW: {value: \"hunter2\x01\", senstive: true}}\n",
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: \"hunter2\\q\"}}\n",
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: hunter2, B: *b}, A: ]}\n",
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: hunter2}}\n b: hunter3\n",
                ENVIRONMENT "  variables: {PW: {sensitive: true, value: hunter2}, QQ: *b}\n",
                ENVIRONMENT "  variable: {PW: {sensitive: true, value: hunter2}}\n",
                ENVIRONMENT "  variables: {}\n  variables: {PW: {sensitive: true, value: hunter2}}\n",
                ENVIRONMENT "  memoryMB: [{sensitive: True, value: [hunter2]}]\n",
                "apiVersion: berth/v1\nkind: Env\nspec: {x: {sensitive: true, value: hunter2}}\n",
                "{kind: {sensitive: yes, value: hunter2}}\n",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct loaded loaded;

                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", wrong[i]);
                loaded_load(&loaded, "m.yaml", NULL);
                assert_int_equal(loaded.result, -1);
                for (size_t j = 0; j < loaded.diagnostics.count; j++) {
                        const char *line = loaded.diagnostics.items[j].source_line;

                        if (line && strstr(line, "hunter"))
                                fail_msg("case %zu quotes: %s", i, line);
                }
                assert_null(strstr(strbuf_text(&loaded.said), "hunter"));
                loaded_end(&loaded);
        }
}

/*
 * A line that cannot be read, and speaks of no secrets, is quoted; and so is the document after one
 * that does.
 */
static void unreadable_lines_are_quoted(void **state) {
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml",
                     "a: b: c\n---\nsensitive: [x\n---\nd: e: f\n---\n" ENVIRONMENT "  memoryMB: 1\n");
        loaded_load(&loaded, "m.yaml", NULL);
        assert_int_equal(loaded.diagnostics.count, 4);
        assert_string_equal(loaded.diagnostics.items[0].source_line, "a: b: c");
        assert_null(loaded.diagnostics.items[1].source_line);
        assert_string_equal(loaded.diagnostics.items[2].source_line, "d: e: f");
        assert_string_equal(loaded.diagnostics.items[3].source_line, "  memoryMB: 1");
        loaded_end(&loaded);
}

static void lifecycle_rules_of_a_bucket(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct loaded loaded;

        (void)state;
        for (int i = 0; i < 501; i++)
                strbuf_printf(
                        &text,
                        "---\napiVersion: berth/v1\nkind: Environment\nmetadata: {name: e%d, labels: {a: b}}\n"
                        "spec: {image: {prebuilt: python}}\n",
                        i);
        strbuf_append(&text, "---\n" HEAD("WorkspacePolicy",
                                          "p") "  selector: {matchLabels: {a: b}}\n  expireAfterDays: 9\n");
        strbuf_append(&text, "---\n" HEAD("WorkspacePolicy",
                                          "q") "  selector: {matchLabels: {a: b}}\n  expireAfterDays: 9\n");
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml", strbuf_text(&text));
        loaded_load(&loaded, "m.yaml", NULL);
        assert_int_equal(loaded.diagnostics.count, 1);
        assert_non_null(
                strstr(loaded.diagnostics.items[0].message, "become 1002 lifecycle rules, S3 takes 1000"));
        assert_string_equal(loaded.diagnostics.items[0].address, "WorkspacePolicy/q");
        loaded_end(&loaded);
}

static void variables_of_4_kilobytes(void **state) {
        (void)state;
        /* {"AA":"..."} is what Lambda measures: nine characters around the text. */
        for (int length = 4086; length <= 4088; length++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                struct loaded loaded;

                strbuf_append(&text, ENVIRONMENT "  variables:\n    AA: ");
                for (int i = 0; i < length; i++)
                        strbuf_append_char(&text, 'x');
                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", strbuf_text(&text));
                loaded_load(&loaded, "m.yaml", NULL);
                assert_int_equal(loaded.diagnostics.count, length > 4087);
                loaded_end(&loaded);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(table),
                cmocka_unit_test(folder),
                cmocka_unit_test(folder_without_manifests),
                cmocka_unit_test(names_beyond_utf8),
                cmocka_unit_test(paths_of_no_use),
                cmocka_unit_test(unreadable),
                cmocka_unit_test(sizes),
                cmocka_unit_test(nesting),
                cmocka_unit_test(alias_bomb),
                cmocka_unit_test(very_many_errors),
                cmocka_unit_test(secrets_are_not_quoted),
                cmocka_unit_test(secrets_are_not_quoted_before_they_are_known),
                cmocka_unit_test(unreadable_lines_are_quoted),
                cmocka_unit_test(lifecycle_rules_of_a_bucket),
                cmocka_unit_test(variables_of_4_kilobytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
