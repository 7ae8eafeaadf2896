# SPDX-License-Identifier: Apache-2.0
# async: await at the top, tasks that live between cells, context variables, errors of tasks.
# %%
import asyncio
import contextvars

async def double(x):
    await asyncio.sleep(0)
    return 2 * x

await double(4)
# %%
await asyncio.gather(*(double(n) for n in range(4)))
# %%
level = contextvars.ContextVar("level", default=0)
token = level.set(5)
level.get()
# %%
async def nested():
    return level.get() + await double(1)

await nested()
# %%
async with asyncio.timeout(5):
    print("in time")
# %%
async for_ = 3
# %%
async def numbers():
    for n in range(3):
        yield n
        await asyncio.sleep(0)

[n async for n in numbers()]
# %%
async for n in numbers():
    print(n, end=" ")
# %%
await asyncio.wait_for(asyncio.sleep(60), 0.01)
# %%
async with asyncio.TaskGroup() as group:
    tasks = [group.create_task(double(n)) for n in (1, 2)]
[task.result() for task in tasks]
